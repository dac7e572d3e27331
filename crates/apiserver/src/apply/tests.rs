//! Ownership on small objects.

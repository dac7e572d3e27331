//! tekton

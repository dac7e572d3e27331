//! The functions of CEL that rules may call here, and those they may not.

/// The functions rules may call; everything else is refused with the definition.
pub const FUNCTIONS: &str = " contains size max min startsWith endsWith string bytes double int uint \
    optional.none optional.of optional.ofNonZeroValue value hasValue or orValue matches duration \
    timestamp getFullYear getMonth getDayOfYear getDayOfMonth getDate getDayOfWeek getHours \
    getMinutes getSeconds getMilliseconds dyn add asApproximateFloat asInteger \
    charAt cidr compareTo containsCIDR containsIP distinct family find findAll first \
    flatten format format.byte format.date format.datetime format.dns1035Label \
    format.dns1035LabelPrefix format.dns1123Label format.dns1123LabelPrefix \
    format.dns1123Subdomain format.dns1123SubdomainPrefix format.labelValue format.named \
    format.qualifiedName format.uri format.uuid getEscapedPath getHost getHostname getPort getQuery \
    getScheme indexOf ip ip.isCanonical isCIDR isGlobalUnicast isGreaterThan isIP isInteger \
    isLessThan isLinkLocalMulticast isLinkLocalUnicast isLoopback isQuantity isSemver isSorted \
    isURL isUnspecified join last lastIndexOf lists.range lowerAscii major \
    masked \
    \
    minor patch prefixLength quantity replace reverse \
    semver sets.contains sets.equivalent sets.intersects sign slice sort split strings.quote sub \
    substring sum trim upperAscii url validate ";

/// Functions of kube-apiserver that are not supported here.
pub const UNSUPPORTED: &str = " all exists exists_one existsOne map filter sortBy transformList \
    transformMap transformMapEntry optMap optFlatMap type bool ";

/// Functions that return a boolean.
pub const YES_OR_NO: &str = " contains startsWith endsWith matches hasValue containsCIDR containsIP \
    isCIDR isGlobalUnicast isGreaterThan isIP isInteger isLessThan isLinkLocalMulticast \
    isLinkLocalUnicast isLoopback isQuantity isSemver isSorted isURL isUnspecified \
    sets.contains sets.equivalent sets.intersects ";

/// Functions that return text.
pub const TEXTS: &str = " string charAt find format join lowerAscii upperAscii trim substring \
    strings.quote getHost getHostname getScheme getPort getEscapedPath ";

/// Functions that take no longer than reading their arguments.
pub(crate) const CHEAP: &str =
    " size contains startsWith endsWith int string dyn hasValue value orValue ";

/// Whether `name` is one of `names`.
pub fn lists(names: &str, name: &str) -> bool {
    names.contains(&format!(" {name} "))
}

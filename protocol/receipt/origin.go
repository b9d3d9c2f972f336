package receipt

import (
	"net/url"
	"strings"
)

// CanonicalOrigin is the origin of an https URL (RFC 6454): lower case, without
// the default port, path and query. By it issuers are compared, caches keyed and
// documents found. What is no such URL is refused with
// E_VERIFY_INSECURE_SCHEME_BLOCKED.
func CanonicalOrigin(issuer string) (string, error) {
	if len(issuer) > maxIssuer {
		return "", refuse(CodeVerifyInsecureScheme, "", "an issuer of more than %d bytes", maxIssuer)
	}
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" {
		return "", refuse(CodeVerifyInsecureScheme, "", "the issuer is not a valid URL")
	}
	if u.Scheme != "https" || u.User != nil {
		return "", refuse(CodeVerifyInsecureScheme, "", "the issuer is not an https URL without user")
	}
	origin := "https://" + strings.TrimSuffix(lowerASCII(u.Host), ":443")
	if !isOrigin(origin, "https", 443) {
		return "", refuse(CodeVerifyInsecureScheme, "", "the issuer has no valid host or port")
	}
	return origin, nil
}

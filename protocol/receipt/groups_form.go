package receipt

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Forms of text that several groups share (WIRE-0.2, section 12).
var (
	digest     = form(71, "a digest, sha256: and 64 lowercase hex digits", regexp.MustCompile(`^sha256:[0-9a-f]{64}$`).MatchString)
	day        = form(10, "a date, YYYY-MM-DD", regexp.MustCompile(`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$`).MatchString)
	instant    = form(64, "a time of RFC 3339", isInstant)
	duration   = form(64, "a duration of ISO 8601", isDuration)
	locator    = form(2048, "an https URI without user and fragment", isLocator)
	identifier = form(2048, "an absolute URI", isAbsoluteURI)
	licence    = form(128, "an SPDX licence expression", isLicence)
)

var instantShape = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`)

// isInstant adds the calendar to the shape; the shape is there because
// time.Parse reads more than RFC 3339 writes.
func isInstant(s string) bool {
	if !instantShape.MatchString(s) {
		return false
	}
	_, err := time.Parse(time.RFC3339, s)
	return err == nil
}

var durationShape = regexp.MustCompile(`^P(?:(\d{1,15})Y)?(?:(\d{1,15})M)?(?:(\d{1,15})W)?(?:(\d{1,15})D)?(?:T(?:\d{1,15}H)?(?:\d{1,15}M)?(?:\d{1,15}S)?)?$`)

// isDuration reads whole components in their order. Weeks stand without
// years, months and days.
func isDuration(s string) bool {
	parts := durationShape.FindStringSubmatch(s)
	if parts == nil || s == "P" || strings.HasSuffix(s, "T") {
		return false
	}
	positive := func(digits string) bool { return strings.Trim(digits, "0") != "" }
	return !positive(parts[3]) || !positive(parts[1]) && !positive(parts[2]) && !positive(parts[4])
}

// isLocator takes any host: a locator says where something lies and is
// followed by nobody on its own.
func isLocator(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme == "https" && u.User == nil && !strings.Contains(s, "#") && isAbsoluteURI(s)
}

// isAbsoluteURI is RFC 3986 with a scheme, and with a host where the scheme
// is of the web.
func isAbsoluteURI(s string) bool {
	u, err := url.Parse(s)
	if err != nil || !u.IsAbs() || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return false
	}
	if u.Scheme != "https" && u.Scheme != "http" {
		return true
	}
	_, err = strconv.ParseUint("0"+u.Port(), 10, 16)
	return u.Hostname() != "" && err == nil
}

var (
	licenceName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	licenceWord = regexp.MustCompile(`[()]|[^() \t]+`)
)

// isLicence reads an SPDX licence expression without its list of names:
// names joined by AND and OR, an exception after WITH, parentheses.
func isLicence(s string) bool {
	depth := 0
	before := "AND" // what stands before the next word: an operator wants a name
	for _, word := range licenceWord.FindAllString(s, -1) {
		wanted := before == "AND" || before == "OR" || before == "("
		switch {
		case before == "WITH":
			if !licenceName.MatchString(word) {
				return false
			}
			before = "exception"
			continue
		case word == "(" && wanted:
			depth++
		case word == ")" && !wanted && depth > 0:
			depth--
		case (word == "AND" || word == "OR") && !wanted:
		case word == "WITH" && !wanted && before != "exception":
		case wanted && isLicenceName(word):
			word = "name"
		default:
			return false
		}
		before = word
	}
	return depth == 0 && (before == "name" || before == "exception" || before == ")")
}

// isLicenceName is a name of the list, with "+" for later versions, or a
// reference of one's own.
func isLicenceName(word string) bool {
	if word == "AND" || word == "OR" || word == "WITH" {
		return false
	}
	name := strings.TrimSuffix(word, "+")
	return licenceName.MatchString(strings.TrimPrefix(name, "LicenseRef-"))
}

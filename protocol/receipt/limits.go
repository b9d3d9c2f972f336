package receipt

import "strconv"

// Limits of a receipt. Sizes are checked before anything is decoded, the rest
// while the JSON is read.
const (
	MaxJWS        = 262_144  // bytes of the compact serialization
	MaxDepth      = 32       // nested objects and arrays, the outermost included
	MaxItems      = 10_000   // of one array
	MaxKeys       = 1_000    // of one object
	MaxString     = 65_536   // UTF-16 code units of one string or name
	MaxNodes      = 100_000  // values of one document
	MaxExtensions = 64 << 10 // bytes of the extensions as they stand in the payload
	MaxKeyID      = 256      // bytes of kid in a receipt that is read

	maxIssuer       = 2048 // bytes of iss
	maxIssuedString = 8192 // bytes of one string in a receipt that is written
	maxIssuedKeyID  = 64   // ASCII characters of kid in a receipt that is written
)

// maxSafeInteger is the largest integer an IEEE 754 double holds exactly
// (RFC 7493, section 2.2).
const maxSafeInteger = 1<<53 - 1

// quoted is text of the input made safe for an error: ASCII, in quotes, cut
// to a readable length.
func quoted(text string) string {
	const longest = 80
	if len(text) > longest {
		text = text[:longest] + "..."
	}
	return strconv.QuoteToASCII(text)
}

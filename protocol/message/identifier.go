package message

import "strings"

// maxSeq is the largest integer JSON carries exactly (RFC 7493, section 2.2).
const maxSeq = 1<<53 - 1

// maxName bounds types, codes and schemes.
const maxName = 64

// isName accepts 1 to 64 characters a-z 0-9 . _ -.
func isName(s string) bool {
	return s != "" && len(s) <= maxName && strings.TrimLeft(s, "abcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

// IsIdempotencyKey reports whether s is 8 to 128 characters [A-Za-z0-9._:-].
func IsIdempotencyKey(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return len(s) >= 8 && len(s) <= 128
}

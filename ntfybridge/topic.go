package ntfybridge

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"strconv"
	"strings"
	"time"
)

// epoch is how long a derived topic is used.
const epoch = 30 * 24 * time.Hour

// topicLabel begins what topics are derived from.
const topicLabel = "parley/ntfy-topic/1\n"

// Epoch is the number of the 30 days, counted from 1970, that now lies in.
func Epoch(now time.Time) int { return int(now.Unix() / int64(epoch/time.Second)) }

// EpochEnd is when an epoch gives way to the next.
func EpochEnd(number int) time.Time {
	return time.Unix(int64(number+1)*int64(epoch/time.Second), 0).UTC()
}

// Topic derives the name of the topic on which one contact writes to the agent
// in one epoch: 32 characters of a-z and 2-7, the base32 of the first 20 bytes
// of HMAC-SHA256 under the agent's secret. The name is what permits writing, so the secret stays
// with the agent and the contact gets the name only. docs/spec/wakeup.md
// section 4 has the bytes.
func Topic(secret []byte, contact string, epoch int) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(topicLabel + contact + "\n" + strconv.Itoa(epoch)))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil)[:20]))
}

// Topics are the names to listen to at now: of this epoch, which contacts are
// told, and of the one before.
func Topics(secret []byte, contact string, now time.Time) []string {
	n := Epoch(now)
	return []string{Topic(secret, contact, n), Topic(secret, contact, n-1)}
}

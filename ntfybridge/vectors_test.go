package ntfybridge_test

var topicVectors = []struct {
	digit string // of which the contact's key has 64
	epoch int
	topic string
}{
	{"a", 693, "og67u5qgzc5z4s34pp3s3jkhb7x63k4r"},
	{"a", 692, "gs2z3inc35o5rzhj2iwpxuvu6j3lzdlq"},
	{"b", 693, "aehhse2uayunowtccsyzlbmxe6oslbxs"},
}

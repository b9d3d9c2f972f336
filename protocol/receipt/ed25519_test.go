package receipt

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/hex"
	"testing"
)

func fromHex(t testing.TB, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The edge cases by which implementations of Ed25519 are told apart ("Taming
// the many EdDSAs", Chalkias, Garillot, Nikolaenko 2020): message, key,
// signature. Only number 3 is admitted: key and R are of mixed order there,
// and both forms of the equation hold.
var edgeCases = []struct{ message, key, signature string }{
	{ // S = 0, key and R of small order
		"8c93255d71dcab10e8f379c26200f3c7bd5f09d9bc3068d3ef4edeb4853022b6",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a0000000000000000000000000000000000000000000000000000000000000000",
	},
	{ // key of small order
		"9bd9f44f4dcc75bd531b56b2cd280b0bb38fc1cd6d1230e14861d861de092e79",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
		"f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43a5bb704786be79fc476f91d3f3f89b03984d8068dcf1bb7dfc6637b45450ac04",
	},
	{ // R of small order
		"aebf3f2601a0c8c5d39cc7d8911642f740b78168218da8471772b35f9d35b9ab",
		"f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa8c4bd45aecaca5b24fb97bc10ac27ac8751a7dfe1baff8b953ec9f5833ca260e",
	},
	{ // mixed order, both equations hold
		"9bd9f44f4dcc75bd531b56b2cd280b0bb38fc1cd6d1230e14861d861de092e79",
		"cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
		"9046a64750444938de19f227bb80485e92b83fdb4b6506c160484c016cc1852f87909e14428a7a1d62e9f22f3d3ad7802db02eb2e688b6c52fcd6648a98bd009",
	},
	{ // holds with the cofactor only
		"e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec4011eaccd55b53f56c",
		"cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
		"160a1cb0dc9c0258cd0a7d23e94d8fa878bcb1925f2c64246b2dee1796bed5125ec6bc982a269b723e0668e540911a9a6a58921d6925e434ab10aa7940551a09",
	},
	{ // the same, with the cofactor before the hash
		"e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec4011eaccd55b53f56c",
		"cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
		"21122a84e0b5fca4052f5b1235c80a537878b38f3142356b2c2384ebad4668b7e40bc836dac0f71076f9abe3a53f9c03c1ceeeddb658d0030494ace586687405",
	},
	{ // S above L
		"85e241a07d148b41e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec40",
		"442aad9f089ad9e14647b1ef9099a1ff4798d78589e66f28eca69c11f582a623",
		"e96f66be976d82e60150baecff9906684aebb1ef181f67a7189ac78ea23b6c0e547f7690a0e2ddcd04d87dbc3490dc19b3b3052f7ff0538cb68afb369ba3a514",
	},
	{ // S far above L
		"85e241a07d148b41e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec40",
		"442aad9f089ad9e14647b1ef9099a1ff4798d78589e66f28eca69c11f582a623",
		"8ce5b96c8f26d0ab6c47958c9e68b937104cd36e13c33566acd2fe8d38aa19427e71f98a473474f2f13f06f97c20d58cc3f54b8bd0d272f42b695dd7e89a8c22",
	},
	{ // R not canonical
		"9bedc267423725d473888631ebf45988bad3db83851ee85c85e241a07d148b41",
		"f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff03be9678ac102edcd92b0210bb34d7428d12ffc5df5f37e359941266a4e35f0f",
	},
	{ // R not canonical, hashed in its canonical form
		"9bedc267423725d473888631ebf45988bad3db83851ee85c85e241a07d148b41",
		"f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffca8c5b64cd208982aa38d4936621a4775aa233aa0505711d8fdcfdaa943d4908",
	},
	{ // key not canonical
		"e96b7021eb39c1a163b6da4e3093dcd3f21387da4cc4572be588fafae23c155b",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
		"a9d55260f765261eb9b84e106f665e00b867287a761990d7135963ee0a7d59dca5bb704786be79fc476f91d3f3f89b03984d8068dcf1bb7dfc6637b45450ac04",
	},
	{ // key not canonical, hashed as it stands
		"39a591f5321bbe07fd5a23dc2f39d025d74526615746727ceefd6e82ae65c06f",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
		"a9d55260f765261eb9b84e106f665e00b867287a761990d7135963ee0a7d59dca5bb704786be79fc476f91d3f3f89b03984d8068dcf1bb7dfc6637b45450ac04",
	},
}

func TestSignatures_of_the_edge_cases_hold_in_number_3_alone(t *testing.T) {
	for i, c := range edgeCases {
		err := verifySignature(fromHex(t, c.key), string(fromHex(t, c.message)), fromHex(t, c.signature))
		if (err == nil) != (i == 3) {
			t.Errorf("case %d: %v", i, err)
		}
		if err != nil && err.Code != CodeInvalidSignature {
			t.Errorf("case %d: %s", i, err.Code)
		}
	}
}

func TestSignatures_of_RFC_8032_hold(t *testing.T) {
	key := fromHex(t, "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
	signature := fromHex(t, "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b")
	if err := verifySignature(key, "", signature); err != nil {
		t.Error(err)
	}
}

// A key of small order signs everything: with S = 0 some message is always
// found for which the bare equation holds.
func TestSignatures_under_keys_of_small_order_are_refused_where_the_bare_equation_holds(t *testing.T) {
	held := 0
	for key := range refusedPoints {
		for nonce := range uint64(64) {
			message := binary.BigEndian.AppendUint64(nil, nonce)
			signature := make([]byte, ed25519.SignatureSize)
			copy(signature, key[:])
			if !ed25519.Verify(key[:], message, signature) {
				continue
			}
			held++
			if err := verifySignature(key[:], string(message), signature); err == nil || err.Code != CodeInvalidSignature {
				t.Fatalf("key %x: %v", key, err)
			}
			break
		}
	}
	if held == 0 {
		t.Error("the bare equation held for no key, so nothing was shown")
	}
}

func TestPoints_have_one_encoding_each(t *testing.T) {
	prime := append(append([]byte{0xed}, bytes.Repeat([]byte{0xff}, 30)...), 0x7f) // p
	below := bytes.Clone(prime)
	below[0] = 0xeb // p - 2
	signed := func(y []byte) []byte { y = bytes.Clone(y); y[31] |= 0x80; return y }
	one := append([]byte{1}, make([]byte, 31)...)
	tests := []struct {
		name     string
		point    []byte
		admitted bool
	}{
		{"p", prime, false},
		{"p with a sign", signed(prime), false},
		{"2^255-1", append(bytes.Repeat([]byte{0xff}, 31), 0x7f), false},
		{"p-2", below, true},
		{"p-2 with a sign", signed(below), true},
		{"1 with a sign", signed(one), false},
		{"p-1 with a sign", signed(yMinusOne[:]), false},
		{"a key", testKey, true},
		{"a key with the other sign", append(bytes.Clone(testKey[:31]), testKey[31]^0x80), true},
		{"almost p at the top only", append(make([]byte, 31), 0x7f), true},
		{"almost p in the middle only", append(append([]byte{0xff}, append(bytes.Repeat([]byte{0xff}, 29), 0)...), 0x7f), true},
	}
	for _, test := range tests {
		if got := isAdmissible(test.point); got != test.admitted {
			t.Errorf("%s: admitted %v", test.name, got)
		}
	}
	for point := range refusedPoints {
		if isAdmissible(point[:]) {
			t.Errorf("%x is admitted", point)
		}
	}
	if len(refusedPoints) != 10 {
		t.Errorf("%d points are refused", len(refusedPoints))
	}
}

func TestVerify_admits_no_weak_key_or_signature_in_a_receipt(t *testing.T) {
	jws := mustIssue(t, testClaims())
	message, encoded, _ := cutLast(jws)
	signature, _ := decodeBase64(encoded)
	for point := range refusedPoints {
		if _, err := Verify(jws, point[:], testOptions()); CodeOf(err) != CodeInvalidSignature {
			t.Errorf("key %x: %v", point, err)
		}
		weak := append(bytes.Clone(point[:]), signature[32:]...)
		refuses(t, message+"."+strictBase64.EncodeToString(weak), testOptions(), CodeInvalidSignature)
	}
	for _, length := range []int{0, 31, 33} {
		if _, err := Verify(jws, make([]byte, length), testOptions()); CodeOf(err) != CodeInvalidFormat {
			t.Errorf("key of %d bytes: %v", length, err)
		}
	}
	refuses(t, message+"."+strictBase64.EncodeToString(signature[:63]), testOptions(), CodeInvalidSignature)
	refuses(t, message+"."+strictBase64.EncodeToString(append(signature, 0)), testOptions(), CodeInvalidSignature)
}

// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"regexp"
	"slices"
	"strings"
)

// withoutSecrets returns a kernel command line that can be shown to everybody.
// Words that sound like a secret, addresses with a password in them and long
// random-looking values lose their value; the arguments of init (after "--")
// are not the kernel's and go entirely.
func withoutSecrets(line string) string {
	words := parameters(line)
	if end := slices.Index(words, "--"); end >= 0 {
		words = words[:end]
	}
	for i, w := range words {
		key, value, ok := strings.Cut(w, "=")
		if ok && value != "" && (secretName.MatchString(key) || secretValue.MatchString(strings.Trim(value, `"`))) {
			words[i] = key + "=(removed)"
		}
	}
	return strings.Join(words, " ")
}

// parameters splits a command line as the kernel does: blanks within double quotes don't part.
func parameters(line string) []string {
	quoted := false
	return strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ' ' && !quoted || r == '\t' || r == '\n'
	})
}

var (
	secretName = regexp.MustCompile(`(?i)pass|pwd|secret|token|key|psk|auth|cred|cookie|login|user|private|pin$|luks|crypt`)
	// A user and password in a URL or mount option, or 24 characters without a dot, slash or comma as in a key or hash.
	secretValue = regexp.MustCompile(`(?i)://[^/@]*@|(pass|pwd|secret|token|key|psk|cred)[a-z_]*[=:]|^[A-Za-z0-9+_=-]{24,}$`)
)

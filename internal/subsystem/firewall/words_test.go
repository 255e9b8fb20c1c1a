// SPDX-License-Identifier: Apache-2.0

package firewall

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"minne/internal/model/config"
	"minne/internal/model/policy"
	"minne/internal/subsystem/nft"
)

// Words of the operator are words: nothing in a name or log prefix means something to nft, and the log
// has them as they were written.
func TestWordsOfTheOperator(t *testing.T) {
	words := []string{"$", "$x", "cost $5 ${y}", "# no comment", "; } }", "{ drop }", "@set", "*", "a*", "'", "`", "%s %d", "accept; drop", "--", "0", "~!&|<>?/=+,:[]()^_"}
	random := rand.New(rand.NewPCG(1, 2))
	for len(words) < 120 {
		length := 1 + random.IntN(48)
		word := make([]byte, length)
		for i := range word {
			word[i] = byte(' ' + random.IntN('~'-' '+1))
		}
		if text := strings.NewReplacer(`"`, "$", `\`, "$").Replace(string(word)); strings.TrimSpace(text) != "" {
			words = append(words, text)
		}
	}
	var rules, translations strings.Builder
	for i, w := range words {
		quoted, err := json.Marshal(fmt.Sprintf(`permit tcp any any %d name "%s" log "%s"`, i+1, w, w))
		must(t, err)
		named, err := json.Marshal(fmt.Sprintf(`deny tcp any any %d name "%s" log`, 1000+i, w))
		must(t, err)
		fmt.Fprintf(&rules, "        - %s\n        - %s\n", quoted, named)
		name, err := json.Marshal(w)
		must(t, err)
		fmt.Fprintf(&translations, "  - {name: %s, from: wan, forward: {protocol: tcp, port: \"%d\", target: 192.0.2.10}}\n", name, 1+i)
	}
	cfg, err := config.Parse("words.yaml", []byte(`version: 1
interfaces:
  lan: {zone: lan, addresses: [192.0.2.1/24]}
  wan: {zone: wan, addresses: [198.51.100.1/24]}
firewall:
  policies:
    - from: wan
      to: lan
      rules:
`+rules.String()+"nat:\n"+translations.String()))
	must(t, err)
	result, err := policy.Compile(cfg, nil, t.TempDir())
	must(t, err)
	f := fresh(t)
	must(t, f.Apply(t.Context(), Desired{Policy: result.Policy}))
	text, err := nft.Run(t.Context(), "", "-j", "list", "table", "inet", tableName)
	must(t, err)
	prefixes, err := logPrefixes(text)
	must(t, err)
	for _, w := range words {
		for _, want := range []string{w + " ", "minne deny " + w + ": "} {
			if !slices.Contains(prefixes, want) {
				t.Errorf("the log never says %q", want)
			}
		}
	}
}

func logPrefixes(text string) (list []string, err error) {
	var table struct {
		Nftables []struct {
			Rule struct {
				Expr []struct {
					Log struct{ Prefix string }
				}
			}
		}
	}
	err = json.Unmarshal([]byte(text), &table)
	for _, o := range table.Nftables {
		for _, e := range o.Rule.Expr {
			if e.Log.Prefix != "" {
				list = append(list, e.Log.Prefix)
			}
		}
	}
	return list, err
}

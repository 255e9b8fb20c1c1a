// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Reference returns the page about rules as Markdown, made of the parser's own tables.
func Reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	b.WriteString("\n## Protocols\n\n| word | meaning |\n|---|---|\n")
	for _, w := range words(protocolWords) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", w, protocolWords[w].meaning)
	}
	b.WriteString("| 0 to 255 | the IP protocol of that number |\n\n## Services\n\nNames of ports:")
	byPort := words(serviceWords)
	slices.SortStableFunc(byPort, func(a, b string) int { return int(serviceWords[a]) - int(serviceWords[b]) })
	for i, w := range byPort {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " `%s` %d", w, serviceWords[w])
	}
	b.WriteString(".\n\n## ICMP types\n\n| type | `icmp` | `icmpv6` |\n|---|---|---|\n")
	names := words(icmpWords[protoICMP])
	for _, w := range words(icmpWords[protoICMPv6]) {
		if !slices.Contains(names, w) {
			names = append(names, w)
		}
	}
	slices.Sort(names)
	number := func(protocol uint8, name string) string {
		if n, ok := icmpWords[protocol][name]; ok {
			return fmt.Sprint(n)
		}
		return ""
	}
	for _, w := range names {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", w, number(protoICMP, w), number(protoICMPv6, w))
	}
	fmt.Fprintf(&b, "\n## Rules as a table\n\nA `rules-file` is CSV (RFC 4180). Its first line names the columns: %s. Only the first two are needed; an empty source or destination is `any`. Lines that begin with # are comments. Each line is the rule that its cells make, in this order:\n\n"+
		"```csv\n%s\npermit,tcp,any,,@web,\"80,443\",name web\npermit,udp,@noc,,self,161,limit 100/s\ndeny,any,any,,any,,log\n```\n", "`"+strings.Join(csvColumns, "`, `")+"`", strings.Join(csvColumns, ","))
	return b.String()
}

const referenceHead = `# Rules of the firewall

This page is made from the tables of the source (go test ./internal/model/policy -run
TestReference -update). The guide is [firewall.md](../guides/firewall.md), the keys
around the rules are in [config.md](config.md).

## Grammar

What is in brackets may be left out, from the right; ` + "`{}`" + ` is any number of times.

` + "```" + `text
rule        = action protocol [source ["from" ports] [destination [ports | type]]] {option}
action      = "permit" | "deny" | "reject"
source      = addresses
destination = addresses
addresses   = "any" | "self" | address {"," address}
address     = an IP address | a prefix | "@" set
ports       = port {"," port}
port        = a number | a range as 8000-8080 | a service | "@" set
type        = an ICMP type {"," an ICMP type}
option      = "log" [text] | "limit" number "/" ("s" | "m" | "h" | "d") ["burst" number] | "name" text | "schedule" schedule
text        = a word, or words in double quotes; after log always in quotes
` + "```" + `

| rule | says |
|---|---|
| ` + "`permit tcp any @web 80,443`" + ` | everybody may reach the hosts of the set web on these ports |
| ` + "`permit udp @noc self 161 limit 100/s`" + ` | the hosts of noc may ask the router itself by SNMP, a hundred new requests a second |
| ` + "`permit tcp any from 1024-65535 192.0.2.7 ssh`" + ` | the source port counts too |
| ` + "`reject tcp any any smtp name \"no mail\"`" + ` | the sender is told, instead of waiting |
| ` + "`deny udp any any schedule lessons`" + ` | no UDP in the times that firewall.schedules calls lessons |
| ` + "`deny any log`" + ` | everything else is dropped, and some of it logged |

## Meaning

- For a packet, the policies of its two zones are read in the order of the file. The first rule
  that matches decides.
- ` + "`permit`" + ` lets the packet pass and, where state is kept, everything that belongs to its
  connection: replies, later packets, ICMP errors about it. ` + "`deny`" + ` drops without a word.
  ` + "`reject`" + ` drops and tells the sender: TCP by a reset, others by ICMP. The kernel tells only
  about protocols whose checksum it knows.
- ` + "`self`" + ` is the router. As destination it makes the rule one for packets to the router, as source
  one for packets that the router sends, whatever the policy's other zone is.
- Rules see addresses after the translation of destinations (port forwards, one-to-one) and before
  that of sources (masquerade, pools, one-to-one): the addresses of the hosts inside.
- A rule that names addresses of one family is about that family only. ` + "`any`" + ` is both.
- ` + "`limit`" + ` counts what the rule matches, all senders together: above the rate the rule denies.
  With state these are new connections. ` + "`burst`" + ` (5) is how many may come at once.
- ` + "`log`" + ` writes at most ten packets a second of the rule to the kernel's log, with its text or
  its name or number in front.
- ` + "`schedule`" + ` makes the rule hold at the times of that name in ` + "`firewall.schedules`" + ` only. What it
  permitted ends with its time.
- Every rule counts its packets and bytes: ` + "`minne show firewall`" + `.
- What a policy doesn't decide, by a rule or its ` + "`default`" + `, is decided by the next policy of the
  same zones, at last by ` + "`firewall.defaults`" + `: dropped and logged between zones and to the router,
  permitted inside a zone and from the router.
- In a ` + "`stateless`" + ` policy each packet is judged alone, and so is the way back.

## What the router's own services open

Neighbour discovery, multicast listeners, IGMP and ping (` + "`firewall.icmp-limit`" + `) reach the router
from everywhere. BGP and its BFD are open to the addresses of the configured peers, OSPF and its BFD
on the interfaces that speak it. These come before all rules.
`

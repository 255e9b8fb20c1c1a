// SPDX-License-Identifier: Apache-2.0

package pattern

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	maxDeck = 1000 // cards of a mix: weights are small numbers once they are reduced
	maxGene = 4096 // frames of a genome
)

// Sizes are the frame sizes of a pattern.
type Sizes struct {
	Text    string // canonical: "64", "imix", "64:9,576:5", "genome:aab"
	Deck    []int  // bytes with FCS: each deck of so many frames has exactly these
	Ordered bool   // and in this order
}

// The mixes that have a name. The papers': 64, 576 and 1500 bytes in 45, 25 and
// 30 % ("Ten years in production", the multi-queue router). FD.io CSIT's
// IMIX_v4_1: 28 × 64 B, 16 × 570 B, 4 × 1518 B.
var mixes = map[string][]weight{
	"imix":      {{64, 45}, {576, 25}, {1500, 30}},
	"imix-csit": {{64, 28}, {570, 16}, {1518, 4}},
}

// Other ways to say them.
var mixAliases = map[string]string{
	"imix=paper": "imix", "imix:paper": "imix", "imix-paper": "imix", "paper": "imix",
	"imix=csit": "imix-csit", "imix:csit": "imix-csit", "csit": "imix-csit",
}

// genes are the letters of RFC 6985 section 4 up to the greatest frame here; z is
// the frame of the MTU, which is 1500 bytes in the lab. (h, i and j are 2112, 9000
// and 16000 bytes.)
var genes = map[rune]int{'a': 64, 'b': 128, 'c': 256, 'd': 512, 'e': 1024, 'f': 1280, 'g': 1518, 'z': 1518}

type weight struct{ size, share int }

const expectSize = `a frame size with FCS from 64 to 1518, "imix", "imix-csit", sizes with weights such as "64:45,576:25,1500:30", or "genome:aab"`

// fault is a problem of a value; Parse adds the place.
type fault struct {
	at, width          int // in the value; width 0 is all of it
	message, expected  string
	nearest, candidate string
}

func (f *fault) Error() string { return f.message }

// parseSizes reads the value of the word size.
func parseSizes(text string) (Sizes, error) {
	if name, ok := mixAliases[text]; ok {
		text = name
	}
	if mix, ok := mixes[text]; ok {
		return Sizes{Text: text, Deck: deck(mix)}, nil
	}
	if letters, ok := strings.CutPrefix(text, "genome:"); ok {
		return parseGenome(letters, len("genome:"))
	}
	text = strings.TrimPrefix(text, "mix:")
	if strings.ContainsAny(text, ":,") {
		return parseMix(text)
	}
	n, err := parseSize(text, 0)
	if err != nil {
		return Sizes{}, err
	}
	return Sizes{Text: strconv.Itoa(n), Deck: []int{n}}, nil
}

func parseSize(text string, at int) (int, error) {
	n, ok := number(text, greatestFrame)
	if !ok && text != "" && strings.Trim(text, "0123456789") == "" {
		n, ok = greatestFrame+1, true
	}
	switch {
	case !ok:
		return 0, &fault{at: at, width: len(text), message: fmt.Sprintf("%q is no frame size", text), expected: expectSize, candidate: text}
	case n < leastFrame || n > greatestFrame:
		return 0, &fault{at: at, width: len(text), message: fmt.Sprintf("frames of %s bytes can't be sent", text), expected: "a size with FCS from 64 to 1518"}
	}
	return n, nil
}

// parseMix reads sizes with weights.
func parseMix(text string) (Sizes, error) {
	var mix []weight
	at := 0
	for part := range strings.SplitSeq(text, ",") {
		size, share, weighted := strings.Cut(part, ":")
		n, err := parseSize(size, at)
		if err != nil {
			return Sizes{}, err
		}
		if !weighted {
			return Sizes{}, &fault{at: at, width: len(part), message: fmt.Sprintf("size %s has no weight", size),
				expected: fmt.Sprintf("\"%s:SHARE\" in a mix; to measure several sizes one after the other, give one pattern each", size)}
		}
		w, ok := number(share, 1_000_000)
		if !ok || w == 0 {
			return Sizes{}, &fault{at: at + len(size) + 1, width: len(share), message: fmt.Sprintf("%q is no weight", share), expected: "a whole number from 1 to 1000000"}
		}
		if slices.ContainsFunc(mix, func(x weight) bool { return x.size == n }) {
			return Sizes{}, &fault{at: at, width: len(part), message: fmt.Sprintf("size %d is there twice", n), expected: "each size once, with its weight"}
		}
		mix = append(mix, weight{n, w})
		at += len(part) + 1
	}
	reduce(mix)
	total := 0
	texts := make([]string, len(mix))
	for i, w := range mix {
		total += w.share
		texts[i] = fmt.Sprintf("%d:%d", w.size, w.share)
	}
	if total > maxDeck {
		return Sizes{}, &fault{message: fmt.Sprintf("the weights add up to %d", total), expected: fmt.Sprintf("at most %d after division by their common factor", maxDeck)}
	}
	return Sizes{Text: strings.Join(texts, ","), Deck: deck(mix)}, nil
}

// reduce divides the weights by their greatest common divisor.
func reduce(mix []weight) {
	common := 0
	for _, w := range mix {
		common = gcd(common, w.share)
	}
	for i := range mix {
		mix[i].share /= common
	}
}

// deck returns every size as often as its reduced weight says.
func deck(mix []weight) (out []int) {
	mix = slices.Clone(mix)
	reduce(mix)
	for _, w := range mix {
		for range w.share {
			out = append(out, w.size)
		}
	}
	return out
}

// parseGenome reads the letters of a genome: lower-case ones as RFC 6985 section
// 4 has them, upper-case ones (section 5) as said behind the letters
// ("aaAB,A=100,B=900"). A number before a letter repeats it: "7a4d" is "aaaaaaadddd".
func parseGenome(text string, at int) (Sizes, error) {
	letters, customs, _ := strings.Cut(text, ",")
	custom, err := parseCustom(customs, at+len(letters)+1)
	if err != nil {
		return Sizes{}, err
	}
	s := Sizes{Text: "genome:" + text, Ordered: true}
	for i := 0; i < len(letters); {
		digits := len(letters[i:]) - len(strings.TrimLeft(letters[i:], "0123456789"))
		repeat, begin := 1, i
		if digits > 0 {
			n, ok := number(letters[i:i+digits], maxGene)
			if !ok || n == 0 {
				return Sizes{}, &fault{at: at + i, width: digits, message: fmt.Sprintf("%q is no number of frames", letters[i:i+digits]), expected: fmt.Sprintf("1 to %d", maxGene)}
			}
			repeat, i = n, i+digits
		}
		var letter rune
		for _, letter = range letters[i:] {
			break
		}
		size, ok := genes[letter]
		if own, isOwn := custom[letter]; isOwn {
			size, ok = own, true
		}
		if !ok {
			return Sizes{}, &fault{at: at + begin, width: min(i-begin+len(string(letter)), len(letters)-begin), message: geneTrouble(letter),
				expected: "letters a (64), b (128), c (256), d (512), e (1024), f (1280), g and z (1518), or upper-case ones with their sizes: genome:aaA,A=576"}
		}
		i += len(string(letter))
		if len(s.Deck)+repeat > maxGene {
			return Sizes{}, &fault{message: "the genome is too long", expected: fmt.Sprintf("at most %d frames", maxGene)}
		}
		s.Deck = append(s.Deck, slices.Repeat([]int{size}, repeat)...)
	}
	if len(s.Deck) == 0 {
		return Sizes{}, &fault{message: "the genome has no letters", expected: "for example genome:aaadg"}
	}
	return s, nil
}

func geneTrouble(letter rune) string {
	switch {
	case letter == 0:
		return "a number in the genome has no letter behind it"
	case strings.ContainsRune("hij", letter):
		return fmt.Sprintf("frames of size %c are longer than 1518 bytes", letter)
	case letter >= 'A' && letter <= 'Z':
		return fmt.Sprintf("size %c is not given", letter)
	}
	return fmt.Sprintf("%q is no letter of a genome", letter)
}

// parseCustom reads the sizes of upper-case letters: "A=100,B=900".
func parseCustom(text string, at int) (map[rune]int, error) {
	sizes := map[rune]int{}
	if text == "" {
		return sizes, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		letter, size, ok := strings.Cut(part, "=")
		if !ok || len(letter) != 1 || letter[0] < 'A' || letter[0] > 'Z' || sizes[rune(letter[0])] != 0 {
			return nil, &fault{at: at, width: len(part), message: fmt.Sprintf("%q lacks the size of a letter", part), expected: "an upper-case letter, each once, with its size: A=576"}
		}
		n, err := parseSize(size, at+2)
		if err != nil {
			return nil, err
		}
		sizes[rune(letter[0])] = n
		at += len(part) + 1
	}
	return sizes, nil
}

// number parses decimal digits, at most most.
func number(text string, most int) (int, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n <= most
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func lcm(a, b int) int { return a / gcd(a, b) * b }

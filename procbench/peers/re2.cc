/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * RE2's sets: which patterns occur in each record. Patterns are written as RE2 has them; every byte is a
 * character (ISO 8859-1).
 */
#include "peer.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <re2/re2.h>
#include <re2/set.h>

/* What its automata may take: their states are made while it searches. */
constexpr int64_t most_memory = int64_t{1} << 30;

extern "C" const char *const peer_program = "minne-peer-re2";

const char *peer_version() { return "RE2 " RE2_VERSION; }

void peer_begin(int huge)
{
	if (huge)
		peer_refuse("--huge", "RE2 has its own memory");
}

namespace {

struct pattern {
	unsigned number;
	std::string text;
};

std::vector<pattern> patterns;
std::unique_ptr<RE2::Set> all;

RE2::Options options()
{
	RE2::Options o(RE2::Latin1);

	o.set_log_errors(false);
	o.set_max_mem(most_memory);
	return o;
}

void take_pattern(char *line, unsigned)
{
	const char *flags, *bytes;
	pattern p;
	size_t length = peer_pattern(line, &p.number, &flags, &bytes);
	std::string set;

	p.text.assign(bytes, length);
	for (; *flags && *flags != ' '; flags++) {
		if (*flags == 'l')
			p.text = RE2::QuoteMeta(p.text);
		else if (*flags != '-')
			set += *flags;
	}
	if (!set.empty())
		p.text = "(?" + set + ":" + p.text + ")";
	patterns.push_back(p);
}

void read_patterns(const char *file)
{
	peer_lines(file, take_pattern);
	if (patterns.empty())
		peer_refuse(file, "no patterns");
}

/* What the set takes at first is not told; its states come while it searches. */
size_t build(const char *file)
{
	read_patterns(file);
	all = std::make_unique<RE2::Set>(options(), RE2::UNANCHORED);
	for (const pattern &p : patterns) {
		std::string error;

		if (all->Add(p.text, &error) < 0)
			peer_refuse(file, "pattern %u: %s", p.number, error.c_str());
	}
	if (!all->Compile())
		peer_refuse(file, "its patterns take more than %ld bytes", static_cast<long>(most_memory));
	return 0;
}

void check(const char *file)
{
	read_patterns(file);
	for (const pattern &p : patterns) {
		RE2 one(p.text, options());

		if (!one.ok())
			printf("%u %s\n", p.number, one.error().c_str());
	}
}

algo_u32 stream(const struct peer_work *w)
{
	const unsigned char *record = w->set->data;
	std::vector<int> found;
	algo_u32 sum = 0;

	for (size_t i = 0; i < w->count; i++) {
		algo_u32 length;
		RE2::Set::ErrorInfo error;

		memcpy(&length, record, 4);
		found.clear();
		if (!all->Match(re2::StringPiece(reinterpret_cast<const char *>(record) + 4, length), &found, &error) && error.kind != RE2::Set::kNoError)
			peer_refuse("RE2::Set::Match", "it failed at record %lu", static_cast<unsigned long>(i));
		if (w->sum) {
			std::sort(found.begin(), found.end());
			for (int n : found)
				algo_checksum_add(w->sum, patterns[static_cast<size_t>(n)].number);
			algo_checksum_add(w->sum, 0xffffffffU);
		}
		for (int n : found)
			sum += patterns[static_cast<size_t>(n)].number + 1;
		record += 4 + (static_cast<size_t>(length) + 3) / 4 * 4;
	}
	return sum;
}

const struct peer_algorithm algorithm = { "re2-set", 0, build, nullptr, { { "stream", stream } }, check };

} // namespace

extern "C" const struct peer_algorithm *const peer_algorithms[] = { &algorithm, nullptr };

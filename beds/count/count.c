// SPDX-License-Identifier: GPL-2.0
/*
 * Counts the guest's instructions by the block of code that they are in: a plugin for QEMU 9.0 and
 * later, one processor, software emulation.
 *
 * The guest says from when until when, with instructions that do nothing (`nopl MARK(%rax)`):
 *
 *   0x54530001  counting begins
 *   0x54530002  counting ends; what follows the next beginning is added
 *   0x54530003  the block that this is in only passes the time, and is not counted
 *
 * At its end it writes a line for each block that was executed meanwhile:
 *
 *   ADDRESS TIMES INSTRUCTIONS [rep]
 *
 * with the address in hex, how often the block was entered, and the instructions of one pass. A
 * block is what QEMU translates in one piece: it ends with a jump, and two that overlap are two.
 * "rep" is a string instruction that goes round: with -icount each round counts as one instruction,
 * which says little about what it takes a real processor.
 *
 * Arguments: out=PATH, where to write.
 *
 * Distributions ship no header for plugins. The few declarations that are needed are here: they are
 * QEMU's interface of version 3 and later.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* QEMU's interface. */
typedef uint64_t qemu_plugin_id_t;
struct qemu_info;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;

typedef struct {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
} qemu_plugin_u64;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
	void (*translated)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id,
	void (*end)(qemu_plugin_id_t id, void *data), void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
	void (*executed)(unsigned int cpu, void *data), enum qemu_plugin_cb_flags flags,
	void *data);
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *tb,
	enum qemu_plugin_op op, qemu_plugin_u64 entry, uint64_t value);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t len);
struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t size);
void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *score, unsigned int cpu);

EXPORT int qemu_plugin_version = 3;

/* Blocks that can be told apart, and places to find them by, twice as many. */
#define MAX_BLOCKS	(1u << 20)
#define PLACES		(2 * MAX_BLOCKS)

enum mark { MARK_BEGIN = 1, MARK_END = 2, MARK_IDLE = 3 };

struct block {
	uint64_t address;
	uint32_t instructions;
	bool rep;
	bool idle;
	/* Of all stretches that have ended. */
	uint64_t times;
};

static struct block blocks[MAX_BLOCKS];
/* Number 0 is for those that found no room. */
static uint32_t places[PLACES];
static uint32_t block_count = 1;

/* How often each block was entered, whether it counts or not: QEMU adds by itself. */
static struct qemu_plugin_scoreboard *score;
/* The same when counting began. */
static uint64_t before[MAX_BLOCKS];
static bool counting;
static const char *path = "counts";

static uint32_t number_of(uint64_t address, uint32_t instructions)
{
	uint64_t hash = (address + ((uint64_t)instructions << 48)) * 0x9e3779b97f4a7c15;
	uint32_t place, number;

	for (place = hash >> 43; ; place++) {
		number = places[place % PLACES];
		if (!number)
			break;
		if (blocks[number].address == address &&
		    blocks[number].instructions == instructions)
			return number;
	}
	if (block_count == MAX_BLOCKS)
		return 0;
	number = block_count++;
	places[place % PLACES] = number;
	blocks[number].address = address;
	blocks[number].instructions = instructions;
	return number;
}

static void begin(unsigned int cpu, void *unused)
{
	memcpy(before, qemu_plugin_scoreboard_find(score, cpu), sizeof(before));
	counting = true;
}

static void end(unsigned int cpu, void *unused)
{
	const uint64_t *now = qemu_plugin_scoreboard_find(score, cpu);
	uint32_t i;

	if (!counting)
		return;
	counting = false;
	for (i = 0; i < block_count; i++)
		blocks[i].times += now[i] - before[i];
}

/* Which of the marks an instruction is; 0 for none. */
static uint32_t mark_of(const uint8_t *code, size_t len)
{
	uint32_t word;

	if (len != 7 || code[0] != 0x0f || code[1] != 0x1f || code[2] != 0x80)
		return 0;
	memcpy(&word, code + 3, sizeof(word));
	return word >> 8 == 0x545300 ? word & 0xff : 0;
}

/* Whether it is movs, stos, cmps, scas, lods with a prefix that makes it go round. */
static bool goes_round(const uint8_t *code, size_t len)
{
	size_t i = 0;
	bool rep = false;

	/* Prefixes: rep, the operand's size, REX. */
	while (i < len && (code[i] == 0xf2 || code[i] == 0xf3 || code[i] == 0x66 ||
			   (code[i] & 0xf0) == 0x40))
		rep |= code[i++] >> 1 == 0xf2 >> 1;
	return rep && i + 1 == len && code[i] >= 0xa4 && code[i] <= 0xaf &&
	       code[i] != 0xa8 && code[i] != 0xa9;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb), len, i;
	qemu_plugin_u64 entry = { .score = score };
	struct qemu_plugin_insn *insn;
	bool idle = false, rep = false;
	uint8_t code[16];
	uint32_t number;

	for (i = 0; i < count; i++) {
		insn = qemu_plugin_tb_get_insn(tb, i);
		len = qemu_plugin_insn_data(insn, code, sizeof(code));
		rep = count == 1 && goes_round(code, len);
		switch (mark_of(code, len)) {
		case MARK_BEGIN:
			qemu_plugin_register_vcpu_insn_exec_cb(insn, begin,
							       QEMU_PLUGIN_CB_NO_REGS, NULL);
			break;
		case MARK_END:
			qemu_plugin_register_vcpu_insn_exec_cb(insn, end,
							       QEMU_PLUGIN_CB_NO_REGS, NULL);
			break;
		case MARK_IDLE:
			idle = true;
			break;
		}
	}
	number = number_of(qemu_plugin_tb_vaddr(tb), count);
	blocks[number].rep = rep;
	blocks[number].idle = idle;
	entry.offset = number * sizeof(uint64_t);
	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64, entry, 1);
}

static void report(qemu_plugin_id_t id, void *unused)
{
	FILE *file = fopen(path, "w");
	const struct block *block;
	uint32_t i;

	if (!file) {
		perror(path);
		return;
	}
	if (blocks[0].times)
		fprintf(file, "lost %" PRIu64 "\n", blocks[0].times);
	for (i = 1; i < block_count; i++) {
		block = &blocks[i];
		if (block->times && !block->idle)
			fprintf(file, "%" PRIx64 " %" PRIu64 " %" PRIu32 "%s\n", block->address,
				block->times, block->instructions, block->rep ? " rep" : "");
	}
	if (fclose(file))
		perror(path);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
			       char **argv);
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
			       char **argv)
{
	int i;

	for (i = 0; i < argc; i++) {
		if (strncmp(argv[i], "out=", 4)) {
			fprintf(stderr, "count: %s: unknown\n", argv[i]);
			return -1;
		}
		path = strdup(argv[i] + 4);
	}
	score = qemu_plugin_scoreboard_new(MAX_BLOCKS * sizeof(uint64_t));
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, report, NULL);
	return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// The kernel of User-Mode Linux sets the registers of its processes by ptrace(2). That of Debian 13 (6.12) hands over 2,696 bytes of
// them (its HOST_FP_SIZE). A host whose processor has AMX takes 11,008 or none, and every process
// in the guest ends with SIGSEGV. This library stands before ptrace(2) and adds what is missing: zeros, which are registers in their
// initial state, as no process in the guest may use AMX. scripts/fetch-uml.sh builds it where the processor needs it.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

typedef long (*ptrace_call)(enum __ptrace_request, pid_t, void *, void *);

long ptrace(enum __ptrace_request request, ...)
{
	static ptrace_call next;
	static _Alignas(64) char registers[1 << 16];
	static size_t size; // of all registers, in bytes; 0 before the kernel was asked

	va_list list;
	va_start(list, request);
	pid_t pid = va_arg(list, pid_t);
	void *address = va_arg(list, void *), *data = va_arg(list, void *);
	va_end(list);
	if (!next)
		next = (ptrace_call)dlsym(RTLD_NEXT, "ptrace");
	if (request != PTRACE_SETREGSET || address != (void *)NT_X86_XSTATE)
		return next(request, pid, address, data);

	struct iovec *given = data, whole = { registers, sizeof registers };
	if (!size) {
		if (next(PTRACE_GETREGSET, pid, address, &whole))
			return -1;
		size = whole.iov_len;
		memset(registers, 0, sizeof registers);
	}
	if (given->iov_len >= size)
		return next(request, pid, address, data);
	memcpy(registers, given->iov_base, given->iov_len);
	whole.iov_len = size;
	return next(request, pid, address, &whole);
}

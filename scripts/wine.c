/*
 * bcryptprimitives.dll for programs of Go under Wine 8, which has none; built by
 * scripts/wine.
 *
 * Go's runtime takes its random numbers from ProcessPrng and does not start without
 * it. And since it loads this before anything else, this is where one answer is put
 * right that hides what Go's own library does on Windows: what Wine 8 does not know of
 * NtSetInformationFile, FileDispositionInformationEx for one, is STATUS_NOT_IMPLEMENTED
 * there and STATUS_INVALID_INFO_CLASS on a Windows that does not know it. Package os
 * removes nothing otherwise, so that no test could clean up. Sealift knows both.
 */
#include <stdint.h>
#include <string.h>
#include <windows.h>
#include <winternl.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length); /* RtlGenRandom */

__declspec(dllexport) BOOL WINAPI ProcessPrng(BYTE *data, SIZE_T size)
{
	while (size > 0) {
		ULONG n = size < (1 << 20) ? (ULONG)size : 1 << 20;
		if (!SystemFunction036(data, n))
			return FALSE;
		data += n, size -= n;
	}
	return TRUE;
}

typedef NTSTATUS(NTAPI *set_information)(HANDLE, PVOID, PVOID, ULONG, int);
static set_information original;

static NTSTATUS NTAPI as_windows(HANDLE h, PVOID iosb, PVOID info, ULONG size, int class)
{
	NTSTATUS status = original(h, iosb, info, size, class);
	return status == (NTSTATUS)0xC0000002 ? (NTSTATUS)0xC0000003 : status;
}

/* An export is an offset of 32 bits from its module, so a jump within that reach leads
 * to as_windows. Whoever asks for the address from now on gets that. */
static BOOL exchange(void)
{
	BYTE *ntdll = (BYTE *)GetModuleHandleA("ntdll.dll");
	IMAGE_NT_HEADERS *head = (IMAGE_NT_HEADERS *)(ntdll + ((IMAGE_DOS_HEADER *)ntdll)->e_lfanew);
	IMAGE_EXPORT_DIRECTORY *exports = (IMAGE_EXPORT_DIRECTORY *)(ntdll + head->OptionalHeader.DataDirectory[0].VirtualAddress);
	DWORD *names = (DWORD *)(ntdll + exports->AddressOfNames), *offset, before;
	WORD *ordinals = (WORD *)(ntdll + exports->AddressOfNameOrdinals);
	BYTE *jump = NULL, *at;
	DWORD i;

	for (i = 0; i < exports->NumberOfNames && strcmp((char *)ntdll + names[i], "NtSetInformationFile"); i++)
		;
	if (i == exports->NumberOfNames)
		return FALSE;
	offset = (DWORD *)(ntdll + exports->AddressOfFunctions) + ordinals[i];
	original = (set_information)(ntdll + *offset);

	for (at = ntdll + 0x1000000; !jump && at < ntdll + 0x7f000000; at += 0x10000)
		jump = VirtualAlloc(at, 64, MEM_RESERVE | MEM_COMMIT, PAGE_EXECUTE_READWRITE);
	if (!jump || !VirtualProtect(offset, sizeof *offset, PAGE_READWRITE, &before))
		return FALSE;
	set_information target = as_windows;
	memcpy(jump, "\x48\xb8", 2); /* mov rax, target */
	memcpy(jump + 2, &target, 8);
	memcpy(jump + 10, "\xff\xe0", 2); /* jmp rax */
	*offset = (DWORD)(jump - ntdll);
	return VirtualProtect(offset, sizeof *offset, before, &before);
}

BOOL WINAPI DllMain(HINSTANCE self, DWORD reason, PVOID reserved)
{
	(void)self, (void)reserved;
	return reason != DLL_PROCESS_ATTACH || exchange();
}

//! QEMU's plugin interface, version 1, as far as it is used here, and the guest's memory.
//!
//! QEMU loads this library and calls [`qemu_plugin_install`]; the functions declared here are its own and are found at
//! that moment. In a process an address of the guest is one of QEMU's own if the guest's base is 0, as it is where
//! guest and host are both x86-64 (`main.rs` checks it). On a machine it is one of whatever program runs, and nothing
//! is read there.
#![allow(
    unsafe_code,
    reason = "a C interface, and the memory of the program that is emulated"
)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use chiplet_caches::marker::Phase;
use chiplet_caches::model::core::Access;

use crate::{Emulated, machine, process};

/// What QEMU looks for first.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "QEMU's name")]
pub static qemu_plugin_version: c_int = 1;

/// What QEMU says of itself.
#[repr(C)]
pub struct Info {
    target: *const c_char,
    versions: [c_int; 2],
    whole_machine: bool,
    processors: c_int,
    most_processors: c_int,
}

#[repr(C)]
struct Block {
    opaque: [u8; 0],
}

#[repr(C)]
struct Instruction {
    opaque: [u8; 0],
}

const NO_REGISTERS: c_int = 0;
const READ_AND_WRITE: c_int = 3;

type OnBlock = extern "C" fn(c_uint, *mut c_void);
type OnMemory = extern "C" fn(c_uint, u32, u64, *mut c_void);

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, call: extern "C" fn(u64, *mut Block));
    fn qemu_plugin_register_vcpu_syscall_cb(
        id: u64,
        call: extern "C" fn(u64, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64),
    );
    fn qemu_plugin_register_vcpu_syscall_ret_cb(
        id: u64,
        call: extern "C" fn(u64, c_uint, i64, i64),
    );
    fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut Block,
        call: OnBlock,
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        call: OnMemory,
        flags: c_int,
        access: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_tb_vaddr(block: *const Block) -> u64;
    fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    fn qemu_plugin_insn_data(instruction: *const Instruction) -> *const u8;
    fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    fn qemu_plugin_mem_is_store(info: u32) -> bool;
}

/// Called by QEMU when it has loaded the plugin, with `name=value` arguments.
///
/// # Safety
/// `info` is QEMU's, and `arguments` are `count` C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    let arguments: Vec<String> = (0..count as usize)
        // SAFETY: QEMU hands over `count` C strings that outlive this call.
        .map(|at| {
            unsafe { CStr::from_ptr(*arguments.add(at)) }
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    // SAFETY: QEMU hands over a description of itself that outlives this call.
    let info = unsafe { &*info };
    let emulated = if info.whole_machine {
        Emulated::Machine(info.processors as u32)
    } else {
        Emulated::Process
    };
    if let Err(error) = super::install(&arguments, emulated) {
        eprintln!("caches: {error:#}");
        return 1;
    }
    // SAFETY: `id` is this plugin's, and the functions have the types that QEMU calls.
    unsafe {
        match emulated {
            Emulated::Machine(_) => {
                qemu_plugin_register_vcpu_tb_trans_cb(id, on_machine_translation);
            }
            Emulated::Process => {
                qemu_plugin_register_vcpu_tb_trans_cb(id, on_process_translation);
                qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
                qemu_plugin_register_vcpu_syscall_ret_cb(id, on_return);
            }
        }
    }
    0
}

/// A `pause`.
const PAUSE: [u8; 2] = [0xf3, 0x90];
/// The prefix of a locked instruction, and the `xchg`s, which are always locked where they touch memory.
const LOCK: u8 = 0xf0;
const EXCHANGES: [u8; 2] = [0x86, 0x87];
/// Set in the address of a locked instruction.
const LOCKED: usize = 1 << 63;
/// The kernel's addresses are above, programs' are below.
const KERNEL: u64 = 1 << 47;

fn is_locked(bytes: &[u8]) -> bool {
    let code = match bytes {
        // A REX prefix.
        [0x40..=0x4f, code, ..] => Some(code),
        _ => bytes.first(),
    };
    bytes.first() == Some(&LOCK) || code.is_some_and(|code| EXCHANGES.contains(code))
}

extern "C" fn on_process_translation(_id: u64, block: *mut Block) {
    // SAFETY: QEMU's handle, valid during this call.
    unsafe {
        let (instructions, pauses) = instrument(block, on_process_memory);
        let work = (instructions | pauses << 32) as *mut c_void;
        qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, NO_REGISTERS, work);
    }
}

extern "C" fn on_machine_translation(_id: u64, block: *mut Block) {
    // SAFETY: QEMU's handle, valid during this call.
    unsafe {
        if qemu_plugin_tb_vaddr(block) < KERNEL {
            instrument(block, on_machine_memory);
        }
    }
}

/// Lets `call` see each access of a block. Returns how many instructions it has, and how many of them pause.
///
/// # Safety
/// `block` is a handle that QEMU has given, and the call that it was given in has not returned.
unsafe fn instrument(block: *mut Block, call: OnMemory) -> (usize, usize) {
    // SAFETY: the handle is valid, as are the instructions that it gives.
    unsafe {
        let count = qemu_plugin_tb_n_insns(block);
        let mut pauses = 0;
        for index in 0..count {
            let instruction = qemu_plugin_tb_get_insn(block, index);
            let size = qemu_plugin_insn_size(instruction);
            let bytes = std::slice::from_raw_parts(qemu_plugin_insn_data(instruction), size);
            pauses += usize::from(bytes == PAUSE);
            let locked = if is_locked(bytes) { LOCKED } else { 0 };
            let pc = (qemu_plugin_insn_vaddr(instruction) as usize | locked) as *mut c_void;
            qemu_plugin_register_vcpu_mem_cb(instruction, call, NO_REGISTERS, READ_AND_WRITE, pc);
        }
        (count, pauses)
    }
}

extern "C" fn on_block(_cpu: c_uint, work: *mut c_void) {
    let work = work as u64;
    process::on_block(work & 0xffff_ffff, work >> 32);
}

extern "C" fn on_process_memory(_cpu: c_uint, info: u32, address: u64, pc: *mut c_void) {
    if process::is_going() || Phase::at(address).is_some() {
        process::on_memory(access(info, address, pc));
    }
}

extern "C" fn on_machine_memory(cpu: c_uint, info: u32, address: u64, pc: *mut c_void) {
    if machine::is_going() || Phase::at(address).is_some() {
        machine::on_memory(cpu, access(info, address, pc));
    }
}

/// An access as QEMU describes it.
fn access(info: u32, address: u64, pc: *mut c_void) -> Access {
    // SAFETY: both read the word that QEMU has handed over.
    let (shift, write) = unsafe {
        (
            qemu_plugin_mem_size_shift(info),
            qemu_plugin_mem_is_store(info),
        )
    };
    let (pc, atomic) = (pc as usize & !LOCKED, pc as usize & LOCKED != 0);
    Access {
        address,
        bytes: 1 << shift,
        write,
        atomic,
        pc: pc as u64,
    }
}

extern "C" fn on_syscall(
    _id: u64,
    _cpu: c_uint,
    number: i64,
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    _e: u64,
    _f: u64,
    _g: u64,
    _h: u64,
) {
    process::on_syscall(number, [a, b, c, d]);
}

extern "C" fn on_return(_id: u64, _cpu: c_uint, number: i64, result: i64) {
    process::on_return(number, result);
}

/// A thread's name, at most 15 bytes, as the guest hands it to the system.
pub fn name(address: u64) -> String {
    // SAFETY: the guest's argument of PR_SET_NAME: a C string, or the guest's own system call would fault.
    let name = unsafe { CStr::from_ptr(address as *const c_char) };
    name.to_string_lossy().into_owned()
}

/// A `timespec` of the guest, in nanoseconds.
pub fn time_at(address: u64) -> u64 {
    // SAFETY: the guest's argument of a system call that reads a timespec here.
    let time = unsafe { *(address as *const [i64; 2]) };
    (time[0] as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(time[1] as u64)
}

/// Sets a `timespec` of the guest.
pub fn set_time_at(address: u64, nanoseconds: u64) {
    let time = [
        (nanoseconds / 1_000_000_000) as i64,
        (nanoseconds % 1_000_000_000) as i64,
    ];
    // SAFETY: the guest's argument of a system call of this thread that has not returned to it: a timespec on its stack
    // that it does not look at meanwhile.
    unsafe { *(address as *mut [i64; 2]) = time };
}

/// The host's clock, in nanoseconds.
pub fn host_time(clock: u64) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes the timespec that it is given.
    unsafe { libc::clock_gettime(clock as libc::clockid_t, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// This thread's number, which is the guest's too.
pub fn thread() -> u64 {
    // SAFETY: asks for a number.
    unsafe { libc::gettid() as u64 }
}

/// Wakes all threads that sleep on a word of the guest.
pub fn rouse(word: u64) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: reads nothing; an address that nobody sleeps on is no error.
    unsafe { libc::syscall(libc::SYS_futex, word, operation, i32::MAX) };
}

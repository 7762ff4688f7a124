//! A file system layer (VFS) for SQLite that counts each `fsync` and can make it fail.
#![allow(unsafe_code, reason = "a file system layer of SQLite is a table of C functions")]

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock};

use redial_queue::sqlite::rusqlite::ffi;

/// The syncs of a store's files, and whether they fail.
#[derive(Default)]
struct Syncs {
    count: u32,
    fails: bool,
    database_fails: bool,
}

/// The methods of a file, and our replacement. The database and its log have different ones.
type Methods = &'static (ffi::sqlite3_io_methods, ffi::sqlite3_io_methods);

type SyncFile = unsafe extern "C" fn(*mut ffi::sqlite3_file, c_int) -> c_int;
type CloseFile = unsafe extern "C" fn(*mut ffi::sqlite3_file) -> c_int;

#[derive(Default)]
struct Shim {
    /// Open files by their address.
    files: HashMap<usize, (String, Methods)>,
    /// By the address of the replaced methods.
    methods: HashMap<usize, Methods>,
    syncs: HashMap<String, Syncs>,
}

struct Real(*mut ffi::sqlite3_vfs);

// SAFETY: SQLite uses its layer from all threads.
unsafe impl Sync for Real {}
// SAFETY: as above.
unsafe impl Send for Real {}

static REAL: OnceLock<Real> = OnceLock::new();

fn shim() -> MutexGuard<'static, Shim> {
    static SHIM: OnceLock<Mutex<Shim>> = OnceLock::new();
    SHIM.get_or_init(Mutex::default).lock().unwrap()
}

/// Applies to all files that are opened from now on.
pub(super) fn register() {
    REAL.get_or_init(|| {
        // SAFETY: the default layer lives forever, and so does the copy of it.
        unsafe {
            let vfs = ffi::sqlite3_vfs_find(std::ptr::null());
            let mut copy = *vfs;
            copy.zName = c"redial-test".as_ptr();
            copy.xOpen = Some(open);
            copy.pNext = std::ptr::null_mut();
            let copy = Box::leak(Box::new(copy));
            assert_eq!(ffi::sqlite3_vfs_register(copy, 1), ffi::SQLITE_OK);
            Real(vfs)
        }
    });
}

/// How often a store's files were synced.
pub(super) fn syncs(path: &Path) -> u32 {
    with(path, |syncs| syncs.count)
}

/// Sets whether every `fsync` of a store fails.
pub(super) fn fail(path: &Path, fails: bool) {
    with(path, |syncs| syncs.fails = fails);
}

/// Sets whether every `fsync` of the database fails, but not of its log.
pub(super) fn fail_in_the_file(path: &Path, fails: bool) {
    with(path, |syncs| syncs.database_fails = fails);
}

fn with<T>(path: &Path, change: impl FnOnce(&mut Syncs) -> T) -> T {
    change(shim().syncs.entry(path.to_str().unwrap().to_owned()).or_default())
}

/// # Safety
///
/// As `xOpen` of the layer is called by SQLite.
unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let Real(real) = *REAL.wait();
    // SAFETY: what SQLite hands to us is handed on to the layer that it is made for. Its files have the methods that it
    // gives them, but for two.
    unsafe {
        let Some(real_open) = (*real).xOpen else { return ffi::SQLITE_MISUSE };
        let code = real_open(real, name, file, flags, out);
        let watched = ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_WAL;
        if code == ffi::SQLITE_OK && flags & watched != 0 && !name.is_null() {
            let mut shim = shim();
            let methods: Methods =
                shim.methods.entry((*file).pMethods.addr()).or_insert_with(|| {
                    let theirs = *(*file).pMethods;
                    let (sync, close): (SyncFile, CloseFile) = (sync, close);
                    let ours = ffi::sqlite3_io_methods {
                        xSync: Some(sync),
                        xClose: Some(close),
                        ..theirs
                    };
                    Box::leak(Box::new((theirs, ours)))
                });
            (*file).pMethods = &methods.1;
            let name = CStr::from_ptr(name).to_str().unwrap().to_owned();
            shim.files.insert(file.addr(), (name, methods));
        }
        code
    }
}

/// # Safety
///
/// As `xSync` of a file is called by SQLite.
unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    let theirs = {
        let mut shim = shim();
        let Shim { files, syncs, .. } = &mut *shim;
        let (name, methods) = files.get(&file.addr()).unwrap();
        let path = name.strip_suffix("-wal").unwrap_or(name);
        let syncs = syncs.entry(path.to_owned()).or_default();
        syncs.count += 1;
        if syncs.fails || (syncs.database_fails && path == name) {
            return ffi::SQLITE_IOERR_FSYNC;
        }
        &methods.0
    };
    // SAFETY: it is a file of the layer that this method is of.
    theirs.xSync.map_or(ffi::SQLITE_MISUSE, |sync| unsafe { sync(file, flags) })
}

/// # Safety
///
/// As `xClose` of a file is called by SQLite.
unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let (_, (theirs, _)) = shim().files.remove(&file.addr()).unwrap();
    // SAFETY: it is a file of the layer that this method is of.
    theirs.xClose.map_or(ffi::SQLITE_MISUSE, |close| unsafe { close(file) })
}

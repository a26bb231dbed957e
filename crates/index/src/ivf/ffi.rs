//! The calls into Faiss that its safe bindings lack.
//!
//! # Why it is sound
//!
//! Each block below cites one of these.
//!
//! - **Owned.** [`Ivf`] owns its `IndexImpl`, which owns the C++ index, which owns its quantizer. Both
//!   pointers beside it point into that one heap object, which moves with neither: they live as long
//!   as `self`.
//! - **Frozen.** Nothing can write to the index once an `Ivf` is shared. The field `nprobe` is written by
//!   [`Ivf::set_width`], which takes `&mut self`; the `IndexImpl` is private and never lent out. Everything
//!   that takes `&self` calls `const` member functions of C++ (`search`, `search_preassigned`, `list_size`),
//!   which only read. Faiss documents concurrent searches of one CPU index as safe. Statistics go into an object of
//!   the call's own (`faiss.cpp`), except in fast-scan indexes, which add to a process-wide one whatever they are
//!   given: plain counters that nothing here reads and no search depends on.
//! - **Sized.** Faiss reads `dim` floats at the query, `width` lists and distances, and writes as many
//!   results as it was asked for: the buffers passed have these lengths. `width` equals the index's `nprobe`
//!   and is at most the number of lists, to which some kinds of index cut it and others do not.
//! - **In range.** List numbers are below the number of lists, or -1. Fast-scan code does not check them.
//!
//! Errors: Faiss catches its exceptions, returns a non-zero code and keeps the message in a thread-local; `faiss.cpp`
//! catches them too and writes the message where it is told.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use faiss::index::{Index, IndexImpl};
use faiss_sys as sys;

use super::blocks::Blocks;
use super::codes::{CodeKind, Codes};
use crate::metric::Metric;

/// A Faiss IVF index that is only searched.
pub(super) struct Ivf {
    index: IndexImpl,
    ivf: NonNull<sys::FaissIndexIVF>,
    quantizer: NonNull<sys::FaissIndex>,
    dim: usize,
    rows: usize,
    lists: usize,
    width: usize,
}

// SAFETY: "Owned": nothing in the index belongs to the thread that made it (`IndexImpl` itself is `Send`).
unsafe impl Send for Ivf {}
// SAFETY: "Frozen": `&Ivf` only reads.
unsafe impl Sync for Ivf {}

impl Ivf {
    /// Takes over `index` if it has inverted lists and a quantizer.
    pub(super) fn adopt(index: IndexImpl) -> Option<Self> {
        // SAFETY: `index` is a live index. The cast is a `dynamic_cast`: null if it is no IVF index.
        let ivf = NonNull::new(unsafe { sys::faiss_IndexIVF_cast(index.inner_ptr()) })?;
        // SAFETY: `ivf` is a live IVF index.
        let quantizer = NonNull::new(unsafe { sys::faiss_IndexIVF_quantizer(ivf.as_ptr()) })?;
        // SAFETY: `ivf` is a live IVF index.
        let lists = unsafe { sys::faiss_IndexIVF_nlist(ivf.as_ptr()) };
        if lists == 0 {
            return None;
        }
        let mut ivf = Self {
            dim: index.d() as usize,
            rows: index.ntotal() as usize,
            lists,
            width: 0,
            index,
            ivf,
            quantizer,
        };
        ivf.set_width(1);
        Some(ivf)
    }

    /// Sets how many lists a scan takes at most. `1 <= width <= lists`.
    pub(super) fn set_width(&mut self, width: usize) {
        assert!((1..=self.lists).contains(&width), "calls of {width} lists");
        // SAFETY: "Owned", and `&mut self`: no search is running.
        unsafe { sys::faiss_IndexIVF_set_nprobe(self.ivf.as_ptr(), width) };
        self.width = width;
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn dim(&self) -> usize {
        self.dim
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn lists(&self) -> usize {
        self.lists
    }

    pub(super) fn is_trained(&self) -> bool {
        self.index.is_trained()
    }

    /// Rows in `list`, which must be below [`Ivf::lists`].
    pub(super) fn list_len(&self, list: usize) -> usize {
        assert!(list < self.lists, "list {list} of {}", self.lists);
        // SAFETY: "Owned", "Frozen", "In range".
        unsafe { sys::faiss_IndexIVF_get_list_size(self.ivf.as_ptr(), list) }
    }

    /// Bytes of one stored code.
    pub(super) fn code_bytes(&self) -> Result<u64, String> {
        let mut stand_alone = 0;
        // SAFETY: "Owned", "Frozen"; writes one `usize`.
        check(unsafe { sys::faiss_Index_sa_code_size(self.index.inner_ptr(), &mut stand_alone) })?;
        // A stand-alone code begins with its list's number, in as few bytes as hold the largest one
        // (`Level1Quantizer::coarse_code_size`).
        let largest = (self.lists - 1) as u64;
        let list_number = u64::from((u64::BITS - largest.leading_zeros()).div_ceil(8));
        Ok((stand_alone as u64).saturating_sub(list_number))
    }

    /// Whether the quantizer compares a query with every centroid.
    pub(super) fn quantizer_is_flat(&self) -> bool {
        // SAFETY: "Owned". The cast is a `dynamic_cast`: null if it is no flat index.
        !unsafe { sys::faiss_IndexFlat_cast(self.quantizer.as_ptr()) }.is_null()
    }

    /// The `nprobe` (at most [`Ivf::lists`]) lists nearest to `query`, nearest first, with their centroids'
    /// distances. An approximate quantizer may find fewer.
    pub(super) fn coarse(&self, query: &[f32], nprobe: usize) -> Result<Vec<(usize, f32)>, String> {
        assert_eq!(query.len(), self.dim, "query of wrong dimension");
        let mut lists = vec![-1i64; nprobe];
        let mut distances = vec![0.0f32; nprobe];
        // SAFETY: "Owned", "Frozen", "Sized": one query, room for `nprobe` results.
        check(unsafe {
            sys::faiss_Index_search(
                self.quantizer.as_ptr(),
                1,
                query.as_ptr(),
                nprobe as i64,
                distances.as_mut_ptr(),
                lists.as_mut_ptr(),
            )
        })?;
        let found = lists.into_iter().zip(distances);
        Ok(found
            .filter_map(|(list, distance)| {
                let list = usize::try_from(list).ok()?;
                (list < self.lists).then_some((list, distance))
            })
            .collect())
    }

    /// The metric that the quantizer ranks lists by, if it is one of ours.
    pub(super) fn quantizer_metric(&self) -> Option<Metric> {
        // SAFETY: "Owned".
        named(unsafe { sys::faiss_Index_metric_type(self.quantizer.as_ptr()) })
    }

    /// The centroids, `[lists][dim]`.
    pub(super) fn centroids(&self) -> Result<Vec<f32>, String> {
        // SAFETY: "Owned".
        let held = unsafe { sys::faiss_Index_ntotal(self.quantizer.as_ptr()) };
        if held != self.lists as i64 {
            return Err(format!("{held} centroids of {} lists", self.lists));
        }
        let mut centroids = vec![0.0; self.lists * self.dim];
        // SAFETY: "Owned", "Frozen"; as many rows as asked for, and room for them.
        check(unsafe {
            sys::faiss_Index_reconstruct_n(self.quantizer.as_ptr(), 0, held, centroids.as_mut_ptr())
        })?;
        Ok(centroids)
    }

    fn raw_codes(&self) -> RawCodes {
        let mut raw = RawCodes {
            kind: 0,
            by_residual: 0,
            m: 0,
            bits: 0,
            code_bytes: 0,
            block_rows: 0,
            values: ptr::null(),
            count: 0,
        };
        // SAFETY: "Owned", "Frozen"; writes one struct.
        unsafe { chiplet_ivf_codes(self.ivf.as_ptr(), &mut raw) };
        raw
    }

    /// What the codes mean, if this crate knows that.
    pub(super) fn codes(&self) -> Option<Codes> {
        let raw = self.raw_codes();
        let values = match raw.values.is_null() {
            true => Vec::new(),
            // SAFETY: "Owned", "Frozen": `count` floats of a vector of the index's, copied at once.
            false => unsafe { std::slice::from_raw_parts(raw.values, raw.count) }.to_vec(),
        };
        Some(Codes {
            kind: match raw.kind {
                1 => CodeKind::F32,
                2 => CodeKind::Ranges { bits: 8, values },
                3 => CodeKind::F16,
                4 => CodeKind::Bf16,
                5 => CodeKind::Product {
                    m: raw.m,
                    bits: raw.bits,
                    centroids: values,
                },
                6 => CodeKind::Ranges { bits: 4, values },
                _ => return None,
            },
            by_residual: raw.by_residual != 0,
            bytes: raw.code_bytes,
        })
    }

    /// The ids of the rows of `list`.
    pub(super) fn list_ids(&self, list: usize) -> Vec<i64> {
        let mut ids = vec![0; self.list_len(list)];
        // SAFETY: "Owned", "Frozen", "In range" (checked by `list_len`), room for all ids.
        unsafe { sys::faiss_IndexIVF_invlists_get_ids(self.ivf.as_ptr(), list, ids.as_mut_ptr()) };
        ids
    }

    /// The codes of the rows of `list`, of `bytes` each.
    pub(super) fn list_codes(&self, list: usize, bytes: usize) -> Result<Vec<u8>, String> {
        let rows = self.list_len(list);
        let blocks = match self.raw_codes().block_rows {
            0 => None,
            rows => {
                let odd = || format!("fast-scan codes in blocks of {rows} rows");
                Some(Blocks::of(rows, bytes).ok_or_else(odd)?)
            }
        };
        let stored = match blocks {
            Some(blocks) => blocks.bytes_of(rows),
            None => rows.checked_mul(bytes),
        };
        let stored = stored.ok_or_else(|| format!("{rows} rows of {bytes} bytes"))?;
        let mut codes = vec![0; stored];
        let mut error = [0_u8; ERROR_ROOM];
        // SAFETY: "Owned", "Frozen", "In range" (checked by `list_len`); writes `codes.len()` bytes or an error, a C
        // string within `error`.
        let code = unsafe {
            chiplet_ivf_list(
                self.ivf.as_ptr(),
                list,
                codes.as_mut_ptr(),
                codes.len(),
                error.as_mut_ptr().cast(),
                error.len(),
            )
        };
        written(code, &error)?;
        Ok(match blocks {
            Some(blocks) => blocks.unpack(&codes, rows),
            None => codes,
        })
    }

    /// Drops all rows: only the quantizer is used from now on.
    pub(super) fn forget_rows(&mut self) -> Result<(), String> {
        // SAFETY: "Owned", and `&mut self`: no search is running.
        check(unsafe { sys::faiss_Index_reset(self.index.inner_ptr()) })
    }

    /// Faiss' own search of many queries (`[n][dim]`) in one call, on its OpenMP threads: ids and distances, both
    /// `[n][k]`, id -1 where it found fewer. `1 <= nprobe <= lists`.
    pub(super) fn search_batch(
        &self,
        queries: &[f32],
        k: usize,
        nprobe: usize,
    ) -> Result<(Vec<i64>, Vec<f32>), String> {
        assert!(queries.len().is_multiple_of(self.dim), "ragged queries");
        assert!((1..=self.lists).contains(&nprobe), "{nprobe} probes");
        let count = queries.len() / self.dim;
        let mut ids = vec![-1i64; count * k];
        let mut distances = vec![0.0f32; count * k];
        let mut parameters = ptr::null_mut();
        // SAFETY: `parameters` receives a new object; no selector, no bound on codes.
        check(unsafe {
            sys::faiss_SearchParametersIVF_new_with(&mut parameters, ptr::null_mut(), nprobe, 0)
        })?;
        // SAFETY: "Owned", "Frozen", "Sized": `count` queries, room for `count * k` results. A `SearchParametersIVF`
        // is a `SearchParameters` (its only base class), and says the number of probes in place of the index's field.
        let code = unsafe {
            sys::faiss_Index_search_with_params(
                self.index.inner_ptr(),
                count as i64,
                queries.as_ptr(),
                k as i64,
                parameters.cast(),
                distances.as_mut_ptr(),
                ids.as_mut_ptr(),
            )
        };
        let outcome = check(code);
        // SAFETY: made above, and used no more.
        unsafe { sys::faiss_SearchParametersIVF_free(parameters) };
        outcome.map(|()| (ids, distances))
    }

    /// Buffers for scans, one after the other.
    pub(super) fn scanner(&self) -> Scanner<'_> {
        Scanner {
            ivf: self,
            lists: vec![-1; self.width],
            centroids: vec![f32::NAN; self.width],
            distances: Vec::new(),
            ids: Vec::new(),
        }
    }
}

/// What is kept of a message of Faiss'.
const ERROR_ROOM: usize = 512;

/// `ChipletCodes` of `faiss.cpp`.
#[repr(C)]
struct RawCodes {
    kind: c_int,
    by_residual: c_int,
    m: usize,
    bits: usize,
    code_bytes: usize,
    block_rows: usize,
    values: *const f32,
    count: usize,
}

unsafe extern "C" {
    /// `faiss.cpp`: has an untrained index code rows as they are.
    fn chiplet_ivf_code_rows(index: *mut sys::FaissIndex);

    /// `faiss.cpp`: what the codes mean.
    fn chiplet_ivf_codes(index: *const sys::FaissIndexIVF, codes: *mut RawCodes) -> c_int;

    /// `faiss.cpp`: the linear transforms of an index as one, or only how many components they take and give.
    fn chiplet_linear(
        index: *const sys::FaissIndex,
        from: *mut usize,
        to: *mut usize,
        matrix: *mut f32,
        shift: *mut f32,
        error: *mut c_char,
        room: usize,
    ) -> c_int;

    /// `faiss.cpp`: the codes of a list, row by row or in blocks.
    fn chiplet_ivf_list(
        index: *const sys::FaissIndexIVF,
        list: usize,
        to: *mut u8,
        bytes: usize,
        error: *mut c_char,
        room: usize,
    ) -> c_int;

    /// `faiss.cpp`: one query in as many lists as the index's `nprobe`, counted in no global.
    fn chiplet_ivf_scan(
        index: *const sys::FaissIndexIVF,
        query: *const f32,
        k: i64,
        lists: *const i64,
        centroids: *const f32,
        distances: *mut f32,
        ids: *mut i64,
        error: *mut c_char,
        room: usize,
    ) -> c_int;
}

/// Scans some lists, then others, in the same buffers.
pub(super) struct Scanner<'a> {
    ivf: &'a Ivf,
    /// `width` list numbers, each in range or -1.
    lists: Vec<i64>,
    /// The distances of their centroids, `width` as well.
    centroids: Vec<f32>,
    distances: Vec<f32>,
    ids: Vec<i64>,
}

impl Scanner<'_> {
    /// The `rows >= 1` nearest rows of `lists` (number and centroid distance, at most [`Ivf::width`]): their
    /// ids and Faiss' distances, nearest first; fewer if there are fewer.
    pub(super) fn run(
        &mut self,
        query: &[f32],
        lists: impl Iterator<Item = (u64, f32)>,
        rows: usize,
    ) -> Result<impl Iterator<Item = (i64, f32)>, String> {
        assert_eq!(query.len(), self.ivf.dim, "query of wrong dimension");
        assert!(rows > 0, "a scan for no rows");
        // List -1 is skipped. Its distance is NaN because fast-scan looks for the range of the distances
        // before it skips, ignoring NaNs (`quantize_lut.cpp`).
        self.lists.fill(-1);
        self.centroids.fill(f32::NAN);
        for (place, (list, centroid)) in lists.enumerate() {
            if list >= self.ivf.lists as u64 {
                return Err(format!("there is no list {list}, only {}", self.ivf.lists));
            }
            self.lists[place] = list as i64;
            self.centroids[place] = centroid;
        }
        self.distances.resize(rows, 0.0);
        self.ids.resize(rows, -1);
        // SAFETY: "Owned", "Frozen", "In range" (checked above), "Sized": one query, `width` lists and distances,
        // room for `rows` results.
        // `scan` writes a C string within `error`.
        let mut error = [0_u8; ERROR_ROOM];
        let code = unsafe {
            chiplet_ivf_scan(
                self.ivf.ivf.as_ptr(),
                query.as_ptr(),
                rows as i64,
                self.lists.as_ptr(),
                self.centroids.as_ptr(),
                self.distances.as_mut_ptr(),
                self.ids.as_mut_ptr(),
                error.as_mut_ptr().cast(),
                error.len(),
            )
        };
        written(code, &error)?;
        let found = self.ids.iter().copied().zip(self.distances.iter().copied());
        // Faiss fills up with -1 where it found fewer.
        Ok(found.filter(|&(id, _)| id != -1))
    }
}

/// The linear transforms before `index`, which must be trained, as one: how many components they take, their matrix
/// (`[given][taken]`), and what is added (`[given]`).
pub(super) fn linear(index: &IndexImpl) -> Result<(usize, Vec<f32>, Vec<f32>), String> {
    let (mut from, mut to) = (0, 0);
    let (mut matrix, mut shift) = (Vec::<f32>::new(), Vec::<f32>::new());
    for filled in [false, true] {
        let mut error = [0_u8; ERROR_ROOM];
        let [matrix, shift] = match filled {
            false => [ptr::null_mut(); 2],
            true => {
                matrix.resize(from * to, 0.0);
                shift.resize(to, 0.0);
                [matrix.as_mut_ptr(), shift.as_mut_ptr()]
            }
        };
        // SAFETY: `index` is a live index, which is not changed. Two numbers are written, or an error, a C string
        // within `error`; the second time also `from * to` and `to` floats, the numbers of the first time.
        let code = unsafe {
            let error = error.as_mut_ptr().cast();
            let index = index.inner_ptr();
            chiplet_linear(index, &mut from, &mut to, matrix, shift, error, ERROR_ROOM)
        };
        written(code, &error)?;
    }
    Ok((from, matrix, shift))
}

/// Has `index`, which is not trained yet, code rows as they are, not less their list's centroid.
pub(super) fn code_rows(index: &mut IndexImpl) {
    // SAFETY: `index` is a live index, of which nobody else has a pointer.
    unsafe { chiplet_ivf_code_rows(index.inner_ptr()) }
}

/// The metric of `index`, if it is one of ours.
pub(super) fn metric(index: &IndexImpl) -> Option<Metric> {
    // SAFETY: `index` is a live index. (`Index::metric_type` panics on metrics that it does not know.)
    named(unsafe { sys::faiss_Index_metric_type(index.inner_ptr()) })
}

fn named(metric: sys::FaissMetricType) -> Option<Metric> {
    match metric {
        sys::FaissMetricType_METRIC_INNER_PRODUCT => Some(Metric::InnerProduct),
        sys::FaissMetricType_METRIC_L2 => Some(Metric::L2),
        _ => None,
    }
}

/// The four letters that Faiss would begin a file of `index` with; `????` for an index it cannot write.
///
/// There is no other way to ask for the kind of an index. Writing stops after these letters.
pub(super) fn kind(index: &IndexImpl) -> [u8; 4] {
    KIND.set(*b"????");
    let mut writer = ptr::null_mut();
    // SAFETY: `first_letters` may be called with whatever Faiss writes; `writer` receives a new object.
    if unsafe { sys::faiss_CustomIOWriter_new(&mut writer, Some(first_letters)) } != 0 {
        return KIND.get();
    }
    // SAFETY: both are live objects. A `CustomIOWriter` is an `IOWriter` (its only base class, `io_c.cpp`).
    // The call fails, as `first_letters` accepts nothing; writing an index does not change it.
    unsafe { sys::faiss_write_index_custom(index.inner_ptr(), writer.cast(), 0) };
    // SAFETY: `writer` was made above and is used no more.
    unsafe { sys::faiss_CustomIOWriter_free(writer) };
    KIND.get()
}

thread_local! {
    /// What [`first_letters`] saw last on this thread.
    static KIND: Cell<[u8; 4]> = const { Cell::new(*b"????") };
}

/// A writer that keeps the first four bytes written and then refuses to write, which ends the writing.
///
/// # Safety
/// `data` is null or points to `size * items` readable bytes.
unsafe extern "C" fn first_letters(data: *const c_void, size: usize, items: usize) -> usize {
    if size.saturating_mul(items) == 4 && !data.is_null() {
        // SAFETY: not null, and four readable bytes by this function's contract.
        KIND.set(unsafe { ptr::read_unaligned(data.cast::<[u8; 4]>()) });
    }
    0
}

/// The error that a function of `faiss.cpp` has written, if its `code` says that it has.
fn written(code: c_int, error: &[u8]) -> Result<(), String> {
    if code == 0 {
        return Ok(());
    }
    let text = CStr::from_bytes_until_nul(error).unwrap_or_default();
    Err(text.to_string_lossy().into_owned())
}

/// The error of the call that returned `code`, if any.
fn check(code: c_int) -> Result<(), String> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: no arguments; the text stays valid until this thread's next Faiss call.
    let text = unsafe { sys::faiss_get_last_error() };
    if text.is_null() {
        return Err(format!("error {code} without a message"));
    }
    // SAFETY: not null, and a C string by Faiss' contract; copied before any other call.
    let text = unsafe { CStr::from_ptr(text) };
    Err(text.to_string_lossy().into_owned())
}

#![allow(unsafe_code)]
use bytemuck::Pod;
use serde::{Serialize, de::DeserializeOwned};
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section(usize, usize);
#[derive(Default)]
pub(crate) struct Draft {
    len: usize,
}
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);
unsafe impl bytemuck::Zeroable for Line {}
unsafe impl Pod for Line {}
pub(crate) struct ImageMut(Vec<Line>);
pub(crate) struct Image {
    bytes: Vec<Line>,
    meta: String,
}
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    Small,
    #[default]
    Transparent,
    HugeTlb,
}
impl Draft {
    pub(crate) fn new() -> Self {
        Self::default()
    }
    pub(crate) fn add(&mut self, _name: &'static str, bytes: usize) -> Section {
        let at = self.len.next_multiple_of(64);
        self.len = at + bytes;
        Section(at, bytes)
    }
    pub(crate) fn allocate(self, _pages: Pages) -> Result<ImageMut, String> {
        Ok(ImageMut(vec![Line([0; 64]); self.len.div_ceil(64)]))
    }
}
impl ImageMut {
    pub(crate) fn section_mut<T: Pod>(&mut self, s: Section) -> &mut [T] {
        bytemuck::cast_slice_mut(
            &mut bytemuck::cast_slice_mut::<Line, u8>(&mut self.0)[s.0..][..s.1],
        )
    }
    pub(crate) fn freeze<M: Serialize>(
        self,
        _kind: &'static str,
        meta: &M,
    ) -> Result<Image, String> {
        Ok(Image {
            bytes: self.0,
            meta: serde_json::to_string(meta).unwrap(),
        })
    }
}
impl Image {
    pub(crate) fn section<T: Pod>(&self, s: Section) -> &[T] {
        bytemuck::cast_slice(&bytemuck::cast_slice::<Line, u8>(&self.bytes)[s.0..][..s.1])
    }
    pub(crate) fn meta<M: DeserializeOwned>(&self) -> Result<M, String> {
        serde_json::from_str(&self.meta).map_err(|e| e.to_string())
    }
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.len() as u64 * 64
    }
}

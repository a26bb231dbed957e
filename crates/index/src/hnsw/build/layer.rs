//! A layer that several threads link at once.

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::error::BuildError;
use crate::hnsw::walk::{FOLLOWED_A_STEP, Layer, NONE};
use crate::progress::Watch;
use crate::{kernel, reserve};

/// Links of each node, at a fixed stride, filled up with [`NONE`].
pub(super) struct GrowingLayer {
    links: Box<[AtomicU32]>,
    locks: Box<[Mutex<()>]>,
    stride: usize,
}

impl GrowingLayer {
    pub(super) fn new(nodes: usize, stride: usize, watch: &Watch<'_>) -> Result<Self, BuildError> {
        let mut links = reserve::room(nodes * stride)?;
        for _ in 0..nodes {
            links.extend((0..stride).map(|_| AtomicU32::new(NONE)));
            watch.glance()?;
        }
        Ok(Self {
            links: links.into(),
            locks: reserve::filled(nodes, || Mutex::new(()))?.into(),
            stride,
        })
    }

    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    pub(super) fn holds(&self, node: u32) -> bool {
        (node as usize) < self.locks.len()
    }

    /// Excludes other writers of the links of `node`.
    pub(super) fn lock(&self, node: u32) -> MutexGuard<'_, ()> {
        self.locks[node as usize].lock()
    }

    fn of(&self, node: u32) -> &[AtomicU32] {
        &self.links[node as usize * self.stride..][..self.stride]
    }

    /// Replaces the links of `node`. Readers may see some of both.
    pub(super) fn set(&self, node: u32, links: &[u32]) {
        let rest = std::iter::repeat(&NONE);
        // Release, and Acquire where links are followed: whoever meets a node sees its links on the layers below.
        for (place, &link) in self.of(node).iter().zip(links.iter().chain(rest)) {
            place.store(link, Ordering::Release);
        }
    }

    /// Adds a link of `node`, if there is room.
    pub(super) fn append(&self, node: u32, link: u32) -> bool {
        let free = self
            .of(node)
            .iter()
            .find(|place| place.load(Ordering::Relaxed) == NONE);
        free.is_some_and(|place| {
            place.store(link, Ordering::Release);
            true
        })
    }

    pub(super) fn read(&self, node: u32, links: &mut Vec<u32>) {
        links.clear();
        links.extend(self.links(node));
    }

    pub(super) fn into_links(self) -> Vec<u32> {
        self.links.into_iter().map(AtomicU32::into_inner).collect()
    }
}

impl Layer for GrowingLayer {
    fn nodes(&self) -> usize {
        self.locks.len()
    }

    #[inline]
    fn step(&self) -> usize {
        FOLLOWED_A_STEP
    }

    #[inline]
    fn links(&self, node: u32) -> impl Iterator<Item = u32> {
        let links = self
            .of(node)
            .iter()
            .map(|link| link.load(Ordering::Acquire));
        links.take_while(|&link| link != NONE)
    }

    #[inline]
    fn prefetch(&self, node: u32) {
        if let Some(first) = self.links.get(node as usize * self.stride) {
            kernel::prefetch(first, self.stride * size_of::<u32>());
        }
    }
}

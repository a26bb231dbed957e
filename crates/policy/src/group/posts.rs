//! Which of a group's threads take tasks.
//!
//! A *post* is a place for one worker, on one core. Several threads may fill it, one at a time: the worker itself, and
//! its substitutes, which are started when a task of the post blocks for the first time. So as many threads take tasks
//! as there are posts whose core may be used, however many are inside code that blocks.

use std::ops::Range;

/// Plain data under the group's lock.
pub(super) struct Posts {
    /// Threads that have been started.
    started: Vec<usize>,
    /// Those of them that are not to take tasks.
    off: Vec<usize>,
    /// Those of these that know, and are parked or about to.
    parked: Vec<usize>,
    /// Threads inside code that blocks.
    blocked: Vec<usize>,
}

/// Who takes tasks in place of a thread that blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// A substitute, or nobody because its core may not be used now. Others at any rate see to what waits, and this one
    /// is to be unparked for it.
    Found(Option<usize>),
    /// A substitute that is to be started.
    Start(usize),
    /// Nobody: all that it may have are blocked themselves, or inside a task.
    Nobody,
}

impl Posts {
    pub(super) fn new(workers: Range<usize>) -> Self {
        Self {
            started: workers.collect(),
            off: Vec::new(),
            parked: Vec::new(),
            blocked: Vec::new(),
        }
    }

    /// Threads that are to take tasks.
    pub(super) fn at_work(&self) -> usize {
        self.started.len() - self.off.len()
    }

    /// Threads that are inside a task or look for one.
    pub(super) fn active(&self) -> usize {
        self.started.len() - self.parked.len() - self.blocked.len()
    }

    /// Whether `thread` is not to take tasks.
    pub(super) fn is_off(&self, thread: usize) -> bool {
        self.off.contains(&thread)
    }

    /// All that are not to take tasks.
    pub(super) fn off(&self) -> &[usize] {
        &self.off
    }

    /// Which of a post's threads takes tasks.
    pub(super) fn holder(&self, mut post: impl Iterator<Item = usize>) -> Option<usize> {
        post.find(|thread| !self.is_off(*thread) && self.started.contains(thread))
    }

    pub(super) fn send_off(&mut self, thread: usize) {
        self.off.push(thread);
    }

    /// Has one of a post's threads take tasks, of which none does. Returns which: one that is free, if there is any.
    pub(super) fn recall(&mut self, post: impl Iterator<Item = usize>) -> usize {
        let burden = |thread: &usize| match () {
            () if self.parked.contains(thread) => 0,
            () if self.blocked.contains(thread) => 2,
            () => 1,
        };
        let thread = post
            .filter(|thread| self.is_off(*thread))
            .min_by_key(burden);
        let thread = thread.expect("a post without a holder has its worker off");
        self.off.retain(|&other| other != thread);
        thread
    }

    /// `thread` knows that it is off.
    pub(super) fn park(&mut self, thread: usize) {
        self.parked.push(thread);
    }

    /// `thread` stands by no longer.
    pub(super) fn leave(&mut self, thread: usize) {
        self.parked.retain(|&other| other != thread);
    }

    /// `thread` of `post` is about to block. If nobody takes the post's tasks then, another one does from now on, if
    /// there is one: `thread` may be off already, with a substitute that has blocked since.
    pub(super) fn block(
        &mut self,
        thread: usize,
        mut post: impl Iterator<Item = usize> + Clone,
    ) -> Cover {
        self.blocked.push(thread);
        let Some(holder) = self.stuck(post.clone()) else {
            return Cover::Found(None);
        };
        let is_free = |other: &usize| {
            !self.started.contains(other) || (self.is_off(*other) && self.parked.contains(other))
        };
        let Some(substitute) = post.find(is_free) else {
            return Cover::Nobody;
        };
        self.hand_over(holder, substitute);
        if !self.started.contains(&substitute) {
            self.started.push(substitute);
            return Cover::Start(substitute);
        }
        Cover::Found(Some(substitute))
    }

    /// `thread` is off and about to park. If the one that has its post's place has blocked meanwhile, with nobody to
    /// take it, `thread` does now.
    pub(super) fn take_post(&mut self, thread: usize, post: impl Iterator<Item = usize>) -> bool {
        let stuck = self.stuck(post);
        if let Some(holder) = stuck {
            self.hand_over(holder, thread);
        }
        stuck.is_some()
    }

    /// Who has a post's place and is blocked.
    fn stuck(&self, post: impl Iterator<Item = usize>) -> Option<usize> {
        let holder = self.holder(post)?;
        self.blocked.contains(&holder).then_some(holder)
    }

    fn hand_over(&mut self, from: usize, to: usize) {
        self.off.push(from);
        self.off.retain(|&other| other != to);
    }

    /// `substitute` could not be started, so `thread` keeps its place.
    pub(super) fn take_back(&mut self, thread: usize, substitute: usize) {
        let wanted = !self.is_off(substitute);
        let again = if wanted { thread } else { substitute };
        self.off.retain(|&other| other != again);
        self.started.retain(|&other| other != substitute);
    }

    /// `thread` blocks no longer. If another has its place, it stands by after its task.
    pub(super) fn unblock(&mut self, thread: usize) {
        self.blocked.retain(|&other| other != thread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One post: worker 0 and its substitutes 1 and 2.
    const POST: std::ops::Range<usize> = 0..3;

    fn posts() -> Posts {
        Posts::new(0..1)
    }

    #[test]
    fn one_thread_of_a_post_takes_tasks_however_many_block() {
        let mut posts = posts();
        assert_eq!(posts.block(0, POST), Cover::Start(1));
        assert_eq!(posts.holder(POST), Some(1));
        assert_eq!(posts.block(1, POST), Cover::Start(2));
        assert_eq!(posts.block(2, POST), Cover::Nobody);
        assert_eq!((posts.at_work(), posts.active()), (1, 0));
        posts.unblock(0);
        assert_eq!((posts.at_work(), posts.active()), (1, 1));
        assert_eq!(posts.holder(POST), Some(2));
    }

    #[test]
    fn a_thread_that_has_blocked_is_the_next_substitute_once_it_stands_by() {
        let mut posts = posts();
        posts.block(0, POST);
        posts.unblock(0);
        assert_eq!(posts.block(1, POST), Cover::Start(2));
        posts.unblock(1);
        posts.park(0);
        assert_eq!(posts.block(2, POST), Cover::Found(Some(0)));
        assert_eq!(posts.holder(POST), Some(0));
    }

    #[test]
    fn a_thread_that_ends_its_task_takes_the_place_of_one_that_has_blocked_meanwhile() {
        let mut posts = Posts::new(0..1);
        posts.block(0, 0..2);
        posts.unblock(0);
        assert_eq!(posts.block(1, 0..2), Cover::Nobody);
        assert!(posts.take_post(0, 0..2));
        assert_eq!((posts.at_work(), posts.holder(0..2)), (1, Some(0)));
        posts.unblock(1);
        assert!(!posts.take_post(1, 0..2));
    }

    #[test]
    fn a_post_whose_core_is_gone_needs_no_substitute_and_comes_back_with_a_free_thread() {
        let mut posts = posts();
        posts.block(0, POST);
        posts.send_off(1);
        posts.park(1);
        assert_eq!((posts.at_work(), posts.holder(POST)), (0, None));
        assert_eq!(posts.recall(POST), 1);
        posts.leave(1);
        posts.send_off(1);
        assert_eq!(posts.block(1, POST), Cover::Found(None));
        posts.unblock(0);
        assert_eq!(posts.recall(POST), 0);
        assert_eq!(posts.at_work(), 1);
    }

    #[test]
    fn a_thread_that_is_off_is_covered_only_as_long_as_its_substitute_does_not_block() {
        let mut posts = Posts::new(0..1);
        assert_eq!(posts.block(0, 0..2), Cover::Start(1));
        posts.unblock(0);
        assert_eq!(posts.block(0, 0..2), Cover::Found(None));
        posts.unblock(0);
        assert_eq!(posts.block(1, 0..2), Cover::Nobody);
        assert_eq!(posts.block(0, 0..2), Cover::Nobody);
        assert_eq!((posts.at_work(), posts.holder(0..2)), (1, Some(1)));
    }

    #[test]
    fn a_thread_that_is_off_has_another_free_one_take_the_place_of_its_blocked_substitute() {
        let mut posts = posts();
        assert_eq!(posts.block(0, POST), Cover::Start(1));
        posts.unblock(0);
        assert_eq!(posts.block(1, POST), Cover::Start(2));
        posts.take_back(1, 2);
        assert_eq!(posts.block(0, POST), Cover::Start(2));
        assert_eq!((posts.at_work(), posts.holder(POST)), (1, Some(2)));
    }

    #[test]
    fn a_substitute_that_cannot_be_started_gives_the_place_back() {
        let mut posts = posts();
        assert_eq!(posts.block(0, POST), Cover::Start(1));
        posts.take_back(0, 1);
        assert_eq!((posts.at_work(), posts.holder(POST)), (1, Some(0)));
        assert_eq!(posts.block(0, POST), Cover::Start(1));
        // The core went meanwhile.
        posts.send_off(1);
        posts.take_back(0, 1);
        assert_eq!((posts.at_work(), posts.holder(POST)), (0, None));
    }
}

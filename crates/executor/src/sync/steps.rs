//! Steps of the protocols that a check can leave out, to see that it fails without them.
//!
//! In a normal build [`left_out`] is the constant `false` and nothing of this remains. In a model-checked build a test
//! runs a check in a process that leaves out one step (`checks.rs`), and the check has to fail there.

/// A step without which something is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A pushed task wakes a sleeper.
    PushWakes,
    /// Tasks that are pushed together wake as many sleepers.
    PushAllWakes,
    /// The part of a batch that ends last resolves the ticket.
    LastPartAnswers,
    /// The last part of a block that finds no place in a queue goes on without one.
    LastPartGoesOn,
    /// A batch's deadline waits for answers that are just being counted.
    DeadlineAwaitsSettled,
    /// Whoever shares out what it has started wakes sleepers for that.
    InvitationWakes,
    /// Whoever lets other groups take part in what it has started calls their workers.
    SpillCalls,
    /// Whoever has let other groups take part takes back what is left of that.
    SpillTakenBack,
    /// A worker that has left what a sibling has started, for a task, invites others in its place.
    PostponedInvites,
    /// A worker that joins what a sibling has started, while a task waits, leaves that task to another.
    JoiningHandsOn,
    /// The hand that leaves a cut query last answers it.
    LastHandAnswers,
    /// The part of a task that ends last wakes the worker that waits for all of them.
    LastPartWakes,
    /// A worker looks at its siblings' invitations after it has joined the sleepers.
    SweepBeforeParking,
    /// What a worker has taken ahead is shown before it unlocks its group.
    ShownBeforeUnlock,
    /// A worker looks at what its siblings have taken ahead after it has joined the sleepers.
    SweepOfSiblings,
    /// A worker that takes tasks ahead arms the timed look.
    PrefetchedArms,
    /// What was taken ahead goes back to a queue that is closed.
    CloseTakesBack,
    /// A worker that returns from its bed is on the list of sleepers no more.
    WakingLeavesList,
    /// A group is offered as spare before its worker looks at the other groups' queues.
    FenceOfSpare,
    /// The timed look lets itself be woken before it looks at the queues for the last time.
    FenceOfMonitor,
    /// A task that is left to a worker that spins, while others sleep, arms the timed look.
    SpinnersTaskArms,
    /// The timed look wakes a sleeper for a task that has waited beside it.
    LookWakes,
    /// A worker that stops spinning is counted out.
    SpinEnds,
    /// An answer wakes whoever waits for it.
    AnswerWakes,
    /// A deadline that passes wakes whoever waits for the answer.
    ExpiryWakes,
    /// A ticket that has left its waker looks whether the task has ended meanwhile.
    WaiterLooks,
    /// Whoever ends a task whose ticket is gone, or was told that it expired, drops the answer.
    UnwantedDropped,
    /// A ticket that goes drops an answer that is there.
    LeftoverDropped,
    /// A ticket that goes, or has its answer, leaves no waker.
    WakerForgotten,
    /// A task whose end is being counted expires no more.
    SettledStays,
    /// An alarm that is due before the timer's thread would wake up wakes it.
    AlarmWakes,
    /// A timer's thread that calls a waker while all others do starts another one.
    StuckReplaced,
    /// The last worker to leave stops the timer.
    LastStopsTimer,
    /// A worker whose notes are full has them added up before it writes the next.
    FullNotesAdded,
    /// A task is counted before its ticket is told.
    NoteBeforeAnswer,
    /// A worker does not start what has ended in the queue.
    BeginAsks,
    /// A closed queue refuses.
    CloseRefuses,
    /// A full queue refuses.
    BoundRefuses,
    /// The tasks of a group that loses its last worker go to another.
    TasksMove,
    /// A worker that stands by is woken when it is wanted again.
    RecallWakes,
    /// A worker that stands by hands on the call that it was woken for.
    CallHandedOn,
    /// A worker whose task blocks wakes its substitute.
    BlockCallsSubstitute,
    /// A substitute that has ended its task sees that its worker's has blocked meanwhile.
    StandbyTakesPlace,
    /// A worker that was called to help and finds work at home calls another.
    CallPassedOn,
    /// A submit that finds its table's home without workers looks for the new one.
    HomeSoughtAgain,
    /// A removed table's counters are put away only when nobody refers to it any more.
    RetireWaits,
    /// They are put away only when nobody refers to an index that it had before, either.
    RetireWaitsForReplaced,
    /// A copy takes the place of the index that it was made of, and of no other.
    CopyIsOfIndex,
    /// Shutdown calls those who stand by.
    CloseCallsAll,
    /// A shutdown that is done wakes whoever awaits it.
    ShutdownWakes,
    /// What is no longer awaited forgets who awaited it.
    StoppingForgets,
}

#[cfg(not(any(chiplet_loom, chiplet_shuttle)))]
#[inline(always)]
pub(crate) const fn left_out(_: Step) -> bool {
    false
}

/// Whether this process leaves the step out: `CHIPLET_LEFT_OUT` names it.
#[cfg(any(chiplet_loom, chiplet_shuttle))]
pub(crate) fn left_out(step: Step) -> bool {
    static LEFT_OUT: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let left_out = LEFT_OUT.get_or_init(|| std::env::var("CHIPLET_LEFT_OUT").ok());
    left_out
        .as_ref()
        .is_some_and(|name| *name == format!("{step:?}"))
}

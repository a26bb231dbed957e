//! What an event loop asks of an executor, before and after there is room for it in a queue.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use chiplet::ticket::BlockAnswers;
use chiplet::{Block, Class, Error, Executor, Neighbor, Query, SubmitError, TableId, Ticket};
use pyo3::prelude::*;

use crate::asked::of_block;
use crate::errors::OrRaise;
use crate::hits::Hits;

/// What a callable returns.
type Returned = PyResult<Py<PyAny>>;

/// A caller's own code.
pub(crate) type Call = Box<dyn FnOnce(&mut chiplet::Context<'_>) -> Returned + Send>;

/// One thing to ask, which may be asked again.
pub(crate) struct Ask {
    pub(crate) executor: Arc<Executor>,
    pub(crate) table: TableId,
    pub(crate) what: What,
}

pub(crate) enum What {
    Query(Query),
    Block(Block),
    Call(Call),
}

/// Those with the same key wait for the same room: executor, table, class.
pub(crate) type Key = (usize, TableId, Option<bool>);

impl Ask {
    pub(crate) fn key(&self) -> Key {
        let executor = Arc::as_ptr(&self.executor) as usize;
        let class = self.query().and_then(Query::requested_class);
        (
            executor,
            self.table,
            class.map(|class| class == Class::Bulk),
        )
    }

    /// When nobody wants the answer any more.
    pub(crate) fn expires(&self) -> Option<Instant> {
        self.query()?.expires()
    }

    fn query(&self) -> Option<&Query> {
        match &self.what {
            What::Query(query) => Some(query),
            What::Block(block) => Some(block.template()),
            What::Call(_) => None,
        }
    }

    /// Asks, or says why not and hands itself back. No refusal is counted of who is `patient`: it is asked again.
    pub(crate) fn submit(self, patient: bool) -> Result<Answer, (SubmitError, Box<Self>)> {
        let Self {
            executor,
            table,
            what,
        } = self;
        let (reason, what) = match what {
            What::Query(query) => {
                let k = query.k();
                match executor.submit_as(table, query, patient) {
                    Ok(ticket) => return Ok(Answer::One(ticket, k)),
                    Err(refused) => (refused.reason, What::Query(refused.input)),
                }
            }
            What::Block(block) => {
                let k = block.template().k();
                match executor.submit_block_as(table, block, patient) {
                    Ok(ticket) => return Ok(Answer::Block(ticket, k)),
                    Err(refused) => (refused.reason, What::Block(refused.input)),
                }
            }
            What::Call(call) => match executor.submit_fn_as(table, None, call, patient) {
                Ok(ticket) => return Ok(Answer::Called(ticket)),
                Err(refused) => (refused.reason, What::Call(refused.input)),
            },
        };
        let ask = Self {
            executor,
            table,
            what,
        };
        Err((reason, Box::new(ask)))
    }
}

/// An answer that is to come.
pub(crate) enum Answer {
    One(Ticket<Vec<Neighbor>>, usize),
    Block(Ticket<BlockAnswers>, usize),
    Called(Ticket<Returned>),
}

/// An answer that is there.
pub(crate) enum Answered {
    One(Result<Vec<Neighbor>, Error>, usize),
    Block(Result<BlockAnswers, Error>, usize),
    Called(Result<Returned, Error>),
}

impl Answer {
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Answered> {
        match self {
            Self::One(ticket, k) => Pin::new(ticket)
                .poll(context)
                .map(|found| Answered::One(found, *k)),
            Self::Block(ticket, k) => Pin::new(ticket)
                .poll(context)
                .map(|found| Answered::Block(found, *k)),
            Self::Called(ticket) => Pin::new(ticket).poll(context).map(Answered::Called),
        }
    }
}

impl Answered {
    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Self::One(found, k) => Hits::of_one(&found.or_raise(py)?, k)
                .or_raise(py)?
                .into_python(py),
            Self::Block(found, k) => of_block(py, k, found.or_raise(py)?)?.into_python(py),
            Self::Called(returned) => returned.or_raise(py)?,
        }
    }
}

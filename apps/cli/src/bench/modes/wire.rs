//! What goes over the sockets between the command and its instances: postcard messages, each behind its length.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use anyhow::ensure;
use chiplet_table::{Neighbor, Query};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A query to an instance.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ask {
    /// Of the answer, too.
    pub(super) id: u64,
    pub(super) table: u32,
    k: u32,
    ef: Option<u32>,
    nprobe: Option<u32>,
    vector: Vec<f32>,
}

impl Ask {
    pub(super) fn new(id: u64, table: usize, query: &Query) -> Self {
        let small = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        Self {
            id,
            table: small(table),
            k: small(query.k()),
            ef: query.requested_ef().map(small),
            nprobe: query.requested_nprobe().map(small),
            vector: query.vector().to_vec(),
        }
    }

    pub(super) fn query(self) -> Query {
        let mut query = Query::new(self.vector).top(self.k as usize);
        if let Some(ef) = self.ef {
            query = query.ef(ef as usize);
        }
        if let Some(nprobe) = self.nprobe {
            query = query.nprobe(nprobe as usize);
        }
        query
    }
}

/// How a query ended.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) id: u64,
    /// Ids and distances; `None` if it was refused or failed.
    hits: Option<Vec<(u64, f32)>>,
}

impl Answer {
    pub(super) fn new(id: u64, hits: Option<&[Neighbor]>) -> Self {
        let pairs = |hits: &[Neighbor]| hits.iter().map(|hit| (hit.id, hit.distance)).collect();
        Self {
            id,
            hits: hits.map(pairs),
        }
    }

    pub(super) fn hits(&self) -> Option<Vec<Neighbor>> {
        let hits = self.hits.as_ref()?.iter();
        Some(
            hits.map(|&(id, distance)| Neighbor { id, distance })
                .collect(),
        )
    }
}

/// Bytes of a message at most: more than any query's or answer's.
const MOST: usize = 16 << 20;

/// Writes one message, in one call.
pub(super) fn write(mut to: &UnixStream, message: &impl Serialize) -> anyhow::Result<()> {
    let head = [0; size_of::<u32>()].to_vec();
    let mut bytes = postcard::to_extend(message, head)?;
    let length = bytes.len() - size_of::<u32>();
    ensure!(length <= MOST, "a message of {length} bytes");
    bytes[..size_of::<u32>()].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(to.write_all(&bytes)?)
}

/// Reads one message, by way of `bytes`; an error at the end of the stream, too.
pub(super) fn read<T: DeserializeOwned>(
    from: &mut impl Read,
    bytes: &mut Vec<u8>,
) -> anyhow::Result<T> {
    let mut length = [0; size_of::<u32>()];
    from.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    ensure!(length <= MOST, "a message of {length} bytes");
    bytes.resize(length, 0);
    from.read_exact(bytes)?;
    Ok(postcard::from_bytes(bytes)?)
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn messages_arrive_as_they_were_sent_until_the_stream_ends() {
        let (here, there) = UnixStream::pair().unwrap();
        let query = Query::new([0.5, -1.0]).top(7).ef(40);
        let hits = [Neighbor {
            id: 1 << 40,
            distance: 0.25,
        }];
        write(&here, &Ask::new(1, 2, &query)).unwrap();
        write(&here, &Ask::new(3, 4, &Query::new([]).nprobe(9))).unwrap();
        write(&here, &Answer::new(3, Some(&hits))).unwrap();
        write(&here, &Answer::new(4, None)).unwrap();
        drop(here);

        let (mut from, mut bytes) = (BufReader::new(there), Vec::new());
        let first: Ask = read(&mut from, &mut bytes).unwrap();
        assert_eq!((first.id, first.table), (1, 2));
        let first = first.query();
        assert_eq!((first.vector(), first.k()), (&[0.5, -1.0][..], 7));
        let asked = |query: &Query| (query.requested_ef(), query.requested_nprobe());
        assert_eq!(asked(&first), (Some(40), None));
        let second: Ask = read(&mut from, &mut bytes).unwrap();
        assert_eq!(asked(&second.query()), (None, Some(9)));
        let answer: Answer = read(&mut from, &mut bytes).unwrap();
        assert_eq!((answer.id, answer.hits()), (3, Some(hits.to_vec())));
        assert_eq!(read::<Answer>(&mut from, &mut bytes).unwrap().hits(), None);
        assert!(read::<Answer>(&mut from, &mut bytes).is_err());
    }
}

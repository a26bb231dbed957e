//! Collections: points in memory, the same on disk, and an index over them that is rebuilt as they change.
//!
//! | file | what |
//! |---|---|
//! | `catalog` | the collections by name: create, find, delete, load at start |
//! | `collection` | one of them: its view, ids, counts, state |
//! | `point`, `schema` | what is stored |
//! | `rows` | the points in memory, as an immutable view |
//! | `payload`, `path` | what is in payloads, and where |
//! | `filter`, `field_index` | which points satisfy conditions, and what is known of that beforehand |
//! | `table` | a view as the executor's table |
//! | `refined` | exact distances over an index of codes |
//! | `store`, `disk`, `caches` | the points on disk |
//! | `saved` | indexes on disk |
//! | `writer` | writes: grouped, stored, then made visible |
//! | `alter` | writes that depend on what is there |
//! | `builder` | indexes, in the background |
//! | `allowance` | memory that builds take for a while |
//! | `footprint` | how much that is, and how much an index takes |
//! | `catch_up` | what was written while an index was built |
//! | `quiet` | when what is outside an index gets one |

pub(crate) mod allowance;
pub(crate) mod alter;
pub(crate) mod builder;
mod caches;
pub(crate) mod catalog;
pub(crate) mod catch_up;
#[expect(
    clippy::module_inception,
    reason = "one collection, in the folder of all that makes one"
)]
pub(crate) mod collection;
mod disk;
pub(crate) mod field_index;
pub(crate) mod filter;
pub(crate) mod footprint;
pub(crate) mod path;
pub(crate) mod payload;
pub(crate) mod point;
mod quiet;
pub(crate) mod refined;
pub(crate) mod rows;
pub(crate) mod saved;
pub(crate) mod schema;
pub(crate) mod store;
pub(crate) mod table;
pub(crate) mod writer;

pub(crate) use catalog::Catalog;
pub(crate) use collection::Collection;

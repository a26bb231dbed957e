//! What a message takes in memory once it is decoded, by the API's own description.
//!
//! Two bytes of a message may become some hundreds: an empty condition, an id, a value. The description says which
//! types a message holds, and from that follows how large the Rust types are that `prost` makes of them. All sizes are
//! upper bounds; a test compares them with the types themselves.

use std::collections::{HashMap, HashSet};

use anyhow::Context;
use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use rustc_hash::FxHashMap;

/// The number of a message type.
pub(super) type ShapeId = usize;

/// A text, bytes, or a list: pointer, length and capacity.
const HEADER: u64 = 24;
const HASH_MAP: u64 = 48;
/// A number, and whether it is there.
const OPTIONAL_NUMBER: u64 = 16;
const NUMBER: u64 = 8;

/// How a number is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Varint,
    Four,
    Eight,
}

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Field {
    Number(Wire),
    /// A list of numbers, and what one takes.
    Numbers(Wire, u64),
    Text,
    Texts,
    /// A message that is part of the one around it.
    Inline(ShapeId),
    /// A message with memory of its own: one that may hold itself.
    Boxed(ShapeId),
    /// A list of messages.
    Messages(ShapeId),
    /// An entry of a map.
    Entry(ShapeId),
}

pub(super) struct Shape {
    /// Of the decoded message, without what it points to.
    pub(super) size: u64,
    fields: FxHashMap<u32, Field>,
}

impl Shape {
    pub(super) fn field(&self, number: u32) -> Option<Field> {
        self.fields.get(&number).copied()
    }
}

/// All message types, and which of them each call takes.
pub(crate) struct Schema {
    shapes: Vec<Shape>,
    #[cfg(test)]
    names: HashMap<String, ShapeId>,
    inputs: FxHashMap<String, ShapeId>,
}

impl Schema {
    /// Reads an encoded `FileDescriptorSet`.
    ///
    /// # Errors
    /// It is none, or a type in it is not described.
    pub(crate) fn read(descriptors: &[u8]) -> anyhow::Result<Self> {
        let set = FileDescriptorSet::decode(descriptors).context("the API's description")?;
        let mut types = Vec::new();
        for file in &set.file {
            let package = format!(".{}", file.package());
            for message in &file.message_type {
                collect(&package, message, &mut types);
            }
        }
        let names: HashMap<String, ShapeId> = types
            .iter()
            .enumerate()
            .map(|(id, (name, _))| (name.clone(), id))
            .collect();
        let types = Types { types, names };
        let mut sizes = vec![None; types.types.len()];
        let shapes = (0..types.types.len())
            .map(|id| {
                let (_, message) = types.types[id];
                let fields = message
                    .field
                    .iter()
                    .map(|field| Ok((u32::try_from(field.number())?, types.field(id, field)?)))
                    .collect::<anyhow::Result<_>>()?;
                Ok(Shape {
                    size: types.size(id, &mut sizes)?,
                    fields,
                })
            })
            .collect::<anyhow::Result<_>>()?;
        let mut inputs = FxHashMap::default();
        for file in &set.file {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    inputs.insert(path, types.find(method.input_type())?);
                }
            }
        }
        Ok(Self {
            shapes,
            #[cfg(test)]
            names: types.names,
            inputs,
        })
    }

    /// What a call's message is; `None` for calls that the API does not have.
    pub(super) fn input(&self, path: &str) -> Option<ShapeId> {
        self.inputs.get(path).copied()
    }

    /// A message type by its full name, with a dot before it.
    #[cfg(test)]
    pub(super) fn named(&self, name: &str) -> Option<ShapeId> {
        self.names.get(name).copied()
    }

    pub(super) fn shape(&self, id: ShapeId) -> &Shape {
        &self.shapes[id]
    }
}

fn collect<'a>(
    around: &str,
    message: &'a DescriptorProto,
    types: &mut Vec<(String, &'a DescriptorProto)>,
) {
    let name = format!("{around}.{}", message.name());
    for nested in &message.nested_type {
        collect(&name, nested, types);
    }
    types.push((name, message));
}

struct Types<'a> {
    types: Vec<(String, &'a DescriptorProto)>,
    names: HashMap<String, ShapeId>,
}

impl Types<'_> {
    fn find(&self, name: &str) -> anyhow::Result<ShapeId> {
        let found = self.names.get(name).copied();
        found.with_context(|| format!("the API's description lacks {name}"))
    }

    fn field(&self, around: ShapeId, field: &FieldDescriptorProto) -> anyhow::Result<Field> {
        let repeated = field.label() == Label::Repeated;
        Ok(match field.r#type() {
            Type::Message | Type::Group => {
                let id = self.find(field.type_name())?;
                if !repeated {
                    match self.leads_to(id, around)? {
                        true => Field::Boxed(id),
                        false => Field::Inline(id),
                    }
                } else if is_map_entry(self.types[id].1) {
                    Field::Entry(id)
                } else {
                    Field::Messages(id)
                }
            }
            Type::String if repeated => Field::Texts,
            Type::String => Field::Text,
            kind => {
                let (wire, size) = match kind {
                    Type::Double | Type::Fixed64 | Type::Sfixed64 => (Wire::Eight, 8),
                    Type::Float | Type::Fixed32 | Type::Sfixed32 => (Wire::Four, 4),
                    Type::Bool => (Wire::Varint, 1),
                    Type::Int32 | Type::Uint32 | Type::Sint32 | Type::Enum => (Wire::Varint, 4),
                    _ => (Wire::Varint, 8),
                };
                match repeated {
                    true => Field::Numbers(wire, size),
                    false => Field::Number(wire),
                }
            }
        })
    }

    /// Whether a message of type `from` may hold one of type `to`, other than in a list. `prost` boxes a field whose
    /// type leads back to the message that it is in.
    fn leads_to(&self, from: ShapeId, to: ShapeId) -> anyhow::Result<bool> {
        let (mut seen, mut open) = (HashSet::new(), vec![from]);
        while let Some(id) = open.pop() {
            if id == to {
                return Ok(true);
            }
            if !seen.insert(id) {
                continue;
            }
            for field in &self.types[id].1.field {
                if field.r#type() == Type::Message && field.label() != Label::Repeated {
                    open.push(self.find(field.type_name())?);
                }
            }
        }
        Ok(false)
    }

    fn size(&self, id: ShapeId, sizes: &mut Vec<Option<u64>>) -> anyhow::Result<u64> {
        if let Some(size) = sizes[id] {
            return Ok(size);
        }
        let message = self.types[id].1;
        let mut size = 0;
        // Of the fields of a choice there is one at a time.
        let mut choices = vec![0; message.oneof_decl.len()];
        for field in &message.field {
            let own = match self.field(id, field)? {
                Field::Number(_) if field.proto3_optional() => OPTIONAL_NUMBER,
                Field::Number(_) | Field::Boxed(_) => NUMBER,
                Field::Text | Field::Texts | Field::Numbers(..) | Field::Messages(_) => HEADER,
                Field::Entry(_) => HASH_MAP,
                Field::Inline(inner) => NUMBER + self.size(inner, sizes)?,
            };
            match field.oneof_index {
                Some(choice) if !field.proto3_optional() => {
                    let most = &mut choices[usize::try_from(choice)?];
                    *most = own.max(*most);
                }
                _ => size += own,
            }
        }
        size += choices
            .iter()
            .filter(|&&most| most > 0)
            .map(|most| most + NUMBER)
            .sum::<u64>();
        sizes[id] = Some(size);
        Ok(size)
    }
}

fn is_map_entry(message: &DescriptorProto) -> bool {
    let options = message.options.as_ref();
    options.is_some_and(|options| options.map_entry())
}

#[cfg(test)]
mod tests {
    use qdrant_client::qdrant;

    use super::*;
    use crate::server::DESCRIPTORS;

    /// What amplifies most: what may be repeated, and what a call begins with.
    #[test]
    fn no_type_is_larger_than_the_description_says() {
        let schema = Schema::read(DESCRIPTORS).unwrap();
        macro_rules! check {
            ($($kind:ident),* $(,)?) => {$(
                let real = size_of::<qdrant::$kind>() as u64;
                let id = schema.named(concat!(".qdrant.", stringify!($kind))).unwrap();
                let said = schema.shape(id).size;
                assert!(
                    (real..=real * 2 + 16).contains(&said),
                    "{} is {real} bytes, not {said}", stringify!($kind)
                );
            )*};
        }
        check!(
            PointId,
            Condition,
            Filter,
            FieldCondition,
            Match,
            HasIdCondition,
            NestedCondition,
            Range,
            GeoPolygon,
            Value,
            ListValue,
            Struct,
            PointStruct,
            Vectors,
            NamedVectors,
            Vector,
            DenseVector,
            SparseVector,
            MultiDenseVector,
            Document,
            Image,
            InferenceObject,
            UpsertPoints,
            DeletePoints,
            GetPoints,
            SearchPoints,
            SearchBatchPoints,
            QueryPoints,
            QueryBatchPoints,
            PrefetchQuery,
            Query,
            VectorInput,
            RecommendInput,
            DiscoverInput,
            ContextInput,
            ContextInputPair,
            Formula,
            Expression,
            CountPoints,
            ScrollPoints,
            SetPayloadPoints,
            DeletePayloadPoints,
            PointsSelector,
            PointVectors,
            PointsUpdateOperation,
            RecommendPoints,
            DiscoverPoints,
            FacetCounts,
            CreateCollection,
            VectorParams,
            CreateFieldIndexCollection,
            UpdatePointVectors,
            AliasOperations,
            ShardKey,
        );
    }

    #[test]
    fn every_call_of_the_services_is_known() {
        let schema = Schema::read(DESCRIPTORS).unwrap();
        for path in [
            "/qdrant.Points/Upsert",
            "/qdrant.Points/Search",
            "/qdrant.Collections/Create",
            "/qdrant.Qdrant/HealthCheck",
        ] {
            assert!(schema.input(path).is_some(), "{path}");
        }
        assert!(schema.input("/qdrant.Points/Nothing").is_none());
        assert!(Schema::read(b"no description").is_err());
    }
}

//! Machines that hwloc reads from XML and synthetic descriptions, sound and broken.

use chiplet_hwloc::{HwlocError, from_synthetic, from_xml};
use chiplet_topology::{Distance, DomainId, Level, LevelChoice, Topology};
use hwlocality::Topology as Hwloc;
use hwlocality::topology::export::xml::XMLExportFlags;
use std::io::Write as _;

fn synthetic(spec: &str) -> Result<Topology, HwlocError> {
    from_synthetic(spec, LevelChoice::Auto)
}

fn xml(text: &str) -> Result<Topology, HwlocError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    from_xml(file.path(), LevelChoice::Auto)
}

#[test]
fn a_two_socket_epyc_is_read_from_a_synthetic_description() {
    let machine = synthetic("package:2 numa:1 l3:12(size=32MiB) l2:8 core:1 pu:2").unwrap();
    assert_eq!(
        (
            machine.level(),
            machine.domains().len(),
            machine.worker_limit()
        ),
        (Level::L3, 24, 192)
    );
    assert!(
        machine
            .domains()
            .iter()
            .all(|domain| domain.cache_bytes == 32 << 20)
    );
    assert_eq!(machine.domains()[23].package, 1);
    assert_eq!(
        machine.distance(DomainId(0), DomainId(11)),
        Distance::SameNode
    );
    assert_eq!(
        machine.distance(DomainId(0), DomainId(12)),
        Distance::OtherPackage
    );
    assert!(!machine.is_this_machine());
}

#[test]
fn two_l3s_of_a_die_are_near() {
    let machine = synthetic("package:1 die:2 l3:2 core:4 pu:1").unwrap();
    assert_eq!(
        machine.distance(DomainId(0), DomainId(1)),
        Distance::SameDie
    );
    assert_eq!(
        machine.distance(DomainId(1), DomainId(2)),
        Distance::SameNode
    );
}

#[test]
fn wrong_synthetic_descriptions_are_refused() {
    for spec in [
        "",
        "   ",
        "nonsense",
        "core:x",
        "package:2 core:-1",
        "pu:0",
        "core:99999 pu:99999",
        "l3:4294967296",
        // hwloc would read each of these, as more cpus than there is memory for.
        "core:0xffffffff",
        "core:60000pu:60000",
        "core:-18446744073709486081",
        "core:2[numa]99999999",
        // This fails an assertion of hwloc's, and hwloc would end the process.
        "(indexes=numa:ma:core) package:1 die:2 l3:2 core:1 pu:1",
        // And would take hours for this.
        "core:8192 pu:1",
    ] {
        let error = synthetic(spec).expect_err(spec);
        assert!(
            matches!(error, HwlocError::Synthetic { .. }),
            "{spec}: {error}"
        );
        assert!(error.to_string().contains("an example"), "{error}");
    }
}

/// Two L3s of two cores each, of whose cpus 0-3 the writer was allowed 1-3, as hwloc 2 writes it.
const SMALL: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0xf" complete_cpuset="0x1f" allowed_cpuset="0xe" nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1" gp_index="1">
  <object type="NUMANode" os_index="0" cpuset="0xf" complete_cpuset="0x1f" nodeset="0x1" complete_nodeset="0x1" gp_index="2" local_memory="1024"/>
  <object type="Package" os_index="3" cpuset="0xf" complete_cpuset="0x1f" nodeset="0x1" complete_nodeset="0x1" gp_index="3">
   <object type="L3Cache" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="4" cache_size="100663296" depth="3" cache_linesize="64" cache_associativity="16" cache_type="0">
    <object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="5">
     <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="6"/>
    </object>
    <object type="Core" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1" gp_index="7">
     <object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1" gp_index="8"/>
    </object>
   </object>
   <object type="L3Cache" cpuset="0xc" complete_cpuset="0xc" nodeset="0x1" complete_nodeset="0x1" gp_index="9" cache_size="33554432" depth="3" cache_linesize="64" cache_associativity="16" cache_type="0">
    <object type="Core" os_index="2" cpuset="0x4" complete_cpuset="0x4" nodeset="0x1" complete_nodeset="0x1" gp_index="10">
     <object type="PU" os_index="2" cpuset="0x4" complete_cpuset="0x4" nodeset="0x1" complete_nodeset="0x1" gp_index="11"/>
    </object>
    <object type="Core" os_index="3" cpuset="0x8" complete_cpuset="0x8" nodeset="0x1" complete_nodeset="0x1" gp_index="12">
     <object type="PU" os_index="3" cpuset="0x8" complete_cpuset="0x8" nodeset="0x1" complete_nodeset="0x1" gp_index="13"/>
    </object>
   </object>
  </object>
 </object>
</topology>
"#;

#[test]
fn an_xml_file_keeps_what_its_writer_could_not_use() {
    let machine = xml(SMALL).unwrap();
    let domains: Vec<_> = machine
        .domains()
        .iter()
        .map(|d| (d.cpus(), d.cache_bytes >> 20, d.package))
        .collect();
    assert_eq!(domains, [(vec![1], 96, 3), (vec![2, 3], 32, 3)]);
    let taken: Vec<String> = machine
        .restrictions()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        taken,
        ["offline: cpus 4", "outside the cgroup's cpuset: cpus 0"]
    );
}

#[test]
fn what_hwloc_writes_is_read_as_what_it_was_written_from() {
    for spec in [
        "package:2 numa:1 l3:3(size=32MiB) l2:8 core:1 pu:2",
        "package:1 die:2 l3:2 core:4 pu:1",
        "numa:4 l3:2(size=16MiB) core:2 pu:2(indexes=32*1:1*32)",
        "package:2 [numa(memory=1GB)] group:2 [numa] l2:3 2",
        "core:3 pu:1",
    ] {
        let machine = synthetic(spec).expect(spec);
        let builder = Hwloc::builder().from_synthetic(spec).unwrap();
        let written = builder.build().unwrap();
        for format in [XMLExportFlags::empty(), XMLExportFlags::V1] {
            // Format 1 knows no memory at two levels, and no dies.
            if !format.is_empty() && spec.contains("[numa]") {
                continue;
            }
            let text = written.export_xml(format).unwrap();
            let read = xml(&text).unwrap_or_else(|error| panic!("{spec}: {error}\n{text}"));
            assert_eq!(read.domains(), machine.domains(), "{spec}");
            assert_eq!(read.restrictions(), machine.restrictions());
            let distances = |machine: &Topology| -> Vec<Distance> {
                let ids = || machine.domains().iter().map(|domain| domain.id);
                ids()
                    .flat_map(|a| ids().map(move |b| machine.distance(a, b)))
                    .collect()
            };
            if format.is_empty() {
                assert_eq!(distances(&read), distances(&machine), "{spec}");
            }
        }
    }
}

/// Each of these changes to a sound file would end the process inside libhwloc, or make it lie.
#[test]
fn xml_that_contradicts_itself_is_refused_before_hwloc_sees_it() {
    let changes = [
        (r#" complete_cpuset="0x2""#, "", ""),
        (r#" nodeset="0x1""#, "", "no nodeset"),
        (r#" cpuset="0x3""#, "", "no cpuset"),
        (r#"cpuset="0xc""#, r#"cpuset="0x1c""#, "holds it has not"),
        (r#"type="L3Cache""#, r#"type="Core""#, "inside another"),
        (r#"type="L3Cache""#, r#"type="Tile""#, "not known"),
        (
            r#"type="PU" os_index="3""#,
            r#"type="PU" os_index="2""#,
            "only one",
        ),
        (
            r#"os_index="1" cpuset="0x2""#,
            r#"os_index="0" cpuset="0x1""#,
            "there twice",
        ),
        (
            r#"nodeset="0x1" complete_nodeset="0x1" gp_index="2""#,
            r#"nodeset="0x3" gp_index="2""#,
            "only one",
        ),
        (r#"cpuset="0xf""#, r#"cpuset="0xf...f""#, "no cpuset"),
        (r#"version="2.0""#, r#"version="3.0""#, "known are 1 and 2"),
    ];
    for (old, new, reason) in changes {
        let changed = SMALL.replace(old, new);
        assert_ne!(changed, SMALL, "{old}");
        match xml(&changed) {
            Ok(_) => assert_eq!(reason, "", "{old} became {new}"),
            Err(error) => {
                let message = error.to_string();
                assert!(
                    !reason.is_empty() && message.contains(reason),
                    "{old}: {message}"
                );
            }
        }
    }
}

#[test]
fn broken_xml_is_an_error_that_names_the_file() {
    let cut = &SMALL[..SMALL.len() / 2];
    let other = "<?xml version=\"1.0\"?><html><body/></html>";
    let lying = "<?xml version=\"1.0\" encoding=\"UTF-16\"?><topology version=\"2.0\"/>";
    let empty = "<?xml version=\"1.0\"?><topology version=\"2.0\"></topology>";
    for text in ["", "not xml", "\0", cut, other, lying, empty] {
        let error = xml(text).expect_err(text);
        assert!(matches!(error, HwlocError::Xml { .. }), "{text:?}: {error}");
        assert!(error.to_string().contains("lstopo"), "{error}");
    }
}

#[test]
fn an_xml_file_of_a_machine_without_cpus_is_refused() {
    let error = xml(&SMALL.replace("\"PU\"", "\"Misc\"")).unwrap_err();
    assert!(error.to_string().contains("without any cpu"), "{error}");
}

#[test]
fn a_missing_xml_file_is_an_error() {
    let error = from_xml("/nonexistent/machine.xml", LevelChoice::Auto).unwrap_err();
    assert!(matches!(error, HwlocError::Read { .. }), "{error}");
}

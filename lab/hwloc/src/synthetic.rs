//! How large a machine an hwloc synthetic description is, known before hwloc builds it.
//!
//! hwloc itself has no limit, and the time that it takes grows with the square of how many objects lie
//! side by side: 8192 cores under one cache take 20 s, a million takes days. A description is walked here
//! the way hwloc walks it, so that nothing hides a count: items need no blank between them, and what is in
//! parentheses or brackets ends at the first that closes. Only decimal counts are let through; hwloc would
//! also read `0x10`, `010` and `-18446744073709551611`. Nor are `indexes=` that name levels: where there are fewer
//! objects to number than the level has, an assertion of hwloc's ends the process (seen with 2.9).

/// The largest `CONFIG_NR_CPUS` that a Linux architecture allows.
const MAX_CPUS: u64 = 8192;
/// As many NUMA nodes as Linux can be built for.
const MAX_ATTACHED: u64 = 1024;
/// Steps along objects side by side that hwloc may take; well under a second.
const MAX_STEPS: u64 = 2 << 20;

/// Errs, in words for the user, if hwloc should not be given this description.
pub(crate) fn check(description: &str) -> Result<(), String> {
    let mut rest = description;
    let (mut cpus, mut arities, mut attached) = (1_u64, 0_u64, 0_u64);
    rest = attributes(rest)?;
    loop {
        rest = rest.trim_start_matches([' ', '\n']);
        if rest.is_empty() {
            break;
        }
        if let Some(memory) = rest.strip_prefix('[') {
            let (inside, after) = memory.split_once(']').ok_or("a [ is not closed")?;
            check_indexes(inside)?;
            rest = after;
            attached = attached.saturating_add(cpus);
            continue;
        }
        let name = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let counted = match name.strip_prefix(':') {
            Some(after) if !rest.starts_with(|c: char| c.is_ascii_digit()) => after,
            _ => rest,
        };
        let after = counted.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = &counted[..counted.len() - after.len()];
        if digits.is_empty() || digits.starts_with('0') {
            let found: String = rest.chars().take(20).collect();
            return Err(format!(
                "\"{found}\" does not start with a level and its count, such as core:8"
            ));
        }
        let arity = digits.parse().unwrap_or(u64::MAX);
        cpus = cpus.saturating_mul(arity);
        arities = arities.saturating_add(arity);
        rest = attributes(after)?;
    }
    if cpus > MAX_CPUS {
        return Err(format!("it describes more than {MAX_CPUS} cpus"));
    }
    if attached > MAX_ATTACHED {
        return Err(format!("it attaches more than {MAX_ATTACHED} NUMA nodes"));
    }
    if cpus.saturating_mul(arities) > MAX_STEPS {
        return Err(
            "it puts so many objects side by side that hwloc would take very long; group them"
                .to_owned(),
        );
    }
    Ok(())
}

/// Steps over what is in parentheses, if that comes next.
fn attributes(rest: &str) -> Result<&str, &'static str> {
    let Some(inside) = rest.strip_prefix('(') else {
        return Ok(rest);
    };
    let (inside, rest) = inside.split_once(')').ok_or("a ( is not closed")?;
    check_indexes(inside)?;
    Ok(rest)
}

/// Errs if objects are numbered by the names of levels.
fn check_indexes(attributes: &str) -> Result<(), &'static str> {
    let named = attributes.split("indexes=").skip(1).any(|value| {
        let end = value.find([' ', ')']).unwrap_or(value.len());
        !value[..end]
            .chars()
            .all(|c| c.is_ascii_digit() || ",*:".contains(c))
    });
    match named {
        true => Err("indexes= takes numbers here, such as indexes=1,0 or indexes=2*4:4*2"),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_there_could_be_are_let_through() {
        for description in [
            "package:2 l3:6(size=32MiB) core:8 pu:2",
            "(memory=1GB) 2 [numa(memory=1GB)] 3 4",
            "pack:1 [numa][numa] l3:2core:4",
            "package:32 core:128 pu:2",
            "core:1024 pu:1",
            "package:2 [numa(memory=1GB indexes=1,0)] 2 pu:2(indexes=2*4:4*2)",
        ] {
            assert_eq!(check(description), Ok(()), "{description}");
        }
    }

    #[test]
    fn what_is_too_large_for_hwloc_is_known_however_it_is_written() {
        for (description, reason) in [
            ("core:8193", "8192 cpus"),
            ("core:60000pu:60000", "8192 cpus"),
            ("core:2(size=1)pu:99999", "8192 cpus"),
            ("core:2[numa]99999", "8192 cpus"),
            ("core:4294967295 pu:4294967295 pu:4294967295", "8192 cpus"),
            ("core:99999999999999999999999", "8192 cpus"),
            ("core:8192 pu:1", "side by side"),
            ("64 [numa] 64 [numa] pu:2", "NUMA nodes"),
            ("core:0xffffff", "count"),
            ("core:0200000", "count"),
            ("core:-18446744073709551611", "count"),
            ("core:\t99999", "count"),
            ("core:0", "count"),
            ("core:2 (pu:99999999", "count"),
            ("core:2( pu:99999999", "closed"),
            ("core:2 [ pu:99999999", "closed"),
            ("pu", "count"),
            ("(indexes=numa:ma:core) package:1 core:1 pu:1", "numbers"),
            ("package:2 core:4(size=1 indexes=core:package)", "numbers"),
            ("package:2 [numa(indexes=package)] core:4", "numbers"),
        ] {
            let error = check(description).expect_err(description);
            assert!(error.contains(reason), "{description}: {error}");
        }
    }
}

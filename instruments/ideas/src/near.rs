//! How much of a table the queries of one of its regions read, with real lists.

use chiplet_table::{Context, Query, Table as _};
use chiplet_workload::dataset::VectorSet;

use super::lists::{Error, Lists, drawn, glove};

/// Prints, for tables cut into regions, from what part of a table nine tenths of a region's reads come.
pub fn print() -> Result<(), Error> {
    println!(
        "| vectors | lists visited of 1,024 | regions: 1 | 4 | 12 | 36 |\n| --- | --: | --: | --: | --: | --: |"
    );
    for (name, set) in [("GloVe", glove()?), ("drawn", drawn())] {
        let lists = Lists::build(&set, 1)?;
        let asked: Vec<usize> = (0..set.len()).step_by(4).collect();
        let asked = set.select(&asked);
        for visited in [16, 64] {
            let visits = visits(&lists, &asked, visited)?;
            let parts: Result<Vec<String>, Error> = [1, 4, 12, 36]
                .map(|regions| {
                    Ok(format!(
                        "{:.0} %",
                        100.0 * part(&lists, &asked, &visits, regions)?
                    ))
                })
                .into_iter()
                .collect();
            println!("| {name} | {visited} | {} |", parts?.join(" | "));
        }
    }
    println!();
    Ok(())
}

fn visits(lists: &Lists, asked: &VectorSet, visited: usize) -> Result<Vec<Vec<usize>>, Error> {
    let mut context = Context::default();
    let mut of = |query: &[f32]| -> Result<Vec<usize>, Error> {
        let found = lists
            .table
            .search(&Query::new(query).top(visited), &mut context)?;
        Ok(found.iter().map(|list| list.id as usize).collect())
    };
    asked.rows().map(&mut of).collect()
}

/// The part of the table for nine tenths of a region's reads: the mean over queries.
fn part(
    lists: &Lists,
    asked: &VectorSet,
    visits: &[Vec<usize>],
    regions: usize,
) -> Result<f64, Error> {
    let regions = Lists::means(asked, regions, 1)?;
    let rows: f64 = lists
        .members
        .iter()
        .map(|members| members.len() as f64)
        .sum();
    let of_region = |queries: &Vec<u32>| {
        let mut reads = vec![0_u32; lists.members.len()];
        for &query in queries {
            visits[query as usize]
                .iter()
                .for_each(|&list| reads[list] += 1);
        }
        // The lists that are read most are those that a cache keeps.
        let mut order: Vec<usize> = (0..reads.len()).collect();
        order.sort_by_key(|&list| std::cmp::Reverse(reads[list]));
        let size = |list: usize| lists.members[list].len() as f64;
        let all: f64 = order
            .iter()
            .map(|&list| f64::from(reads[list]) * size(list))
            .sum();
        let (mut read, mut kept) = (0.0, 0.0);
        for list in order {
            if read >= 0.9 * all {
                break;
            }
            read += f64::from(reads[list]) * size(list);
            kept += size(list);
        }
        kept / rows * queries.len() as f64
    };
    Ok(regions.members.iter().map(of_region).sum::<f64>() / asked.len() as f64)
}

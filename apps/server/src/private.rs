//! Files and folders that only the server's user may read: they hold the points, and other users of the machine have no
//! key to show. What is there already keeps its mode, since somebody may have chosen it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
#[cfg(unix)]
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Makes a folder, and those around it, unless they are there.
pub(crate) fn folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    builder.mode(0o700);
    builder.create(path)
}

/// To open a file that is made if it is not there.
pub(crate) fn options() -> OpenOptions {
    let mut options = File::options();
    options.write(true);
    #[cfg(unix)]
    options.mode(0o600);
    options
}

//! Files that a command opens at its start and writes at its end. A file that cannot be written is
//! reported before hours of work, not after.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::page::UserError;

/// A file to write. It replaces an existing file only when it is complete.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    file: File,
    /// The temporary file; `None` if the path is a pipe or a terminal, not a regular file.
    part: Option<PathBuf>,
    /// The option that the user can change to write elsewhere.
    option: &'static str,
}

impl OutputFile {
    /// Opens the file that an option names.
    ///
    /// # Errors
    /// If the file cannot be written: its name and the reason, in one line.
    pub fn open(path: &Path, option: &'static str) -> Result<Self, UserError> {
        let is_file = fs::metadata(path).map_or(true, |there| there.is_file());
        let part = is_file.then(|| {
            let mut part = path.as_os_str().to_owned();
            part.push(".part");
            PathBuf::from(part)
        });
        let file = match &part {
            Some(part) => File::create(part),
            None => OpenOptions::new().write(true).open(path),
        };
        let file = file.map_err(|error| unwritable(path, option, &error))?;
        Ok(Self { path: path.to_owned(), file, part, option })
    }

    /// Opens the file that an option names, if the user gave the option.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn if_requested(
        path: Option<&PathBuf>,
        option: &'static str,
    ) -> Result<Option<Self>, UserError> {
        path.map(|path| Self::open(path, option)).transpose()
    }

    /// Writes the whole text.
    ///
    /// # Errors
    /// If writing fails after all.
    pub fn write(mut self, text: &str) -> Result<(), UserError> {
        let written =
            self.file.write_all(text.as_bytes()).and_then(|()| match self.part.as_ref() {
                Some(part) => fs::rename(part, &self.path),
                None => Ok(()),
            });
        written.map_err(|error| unwritable(&self.path, self.option, &error))?;
        self.part = None;
        Ok(())
    }
}

impl Drop for OutputFile {
    /// Removes an incomplete file.
    fn drop(&mut self) {
        self.part.iter().for_each(|part| {
            fs::remove_file(part).ok();
        });
    }
}

fn unwritable(path: &Path, option: &str, error: &io::Error) -> UserError {
    let why = match path.parent() {
        Some(folder) if error.kind() == io::ErrorKind::NotFound => {
            format!("no folder {}", folder.display())
        }
        _ => error.to_string(),
    };
    UserError(format!(
        "{}: this file cannot be written: {why}; name another one with {option}",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_existing_file_stays_until_the_new_one_is_complete() {
        let path = std::env::temp_dir().join(format!("reknit-output-{}.xml", std::process::id()));
        fs::write(&path, "old").unwrap();
        let output = OutputFile::open(&path, "--junit").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        drop(output);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        let output = OutputFile::open(&path, "--junit").unwrap();
        let part = output.part.clone().unwrap();
        output.write("new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert!(!part.exists());
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_write_error_is_reported_in_one_line() {
        let UserError(why) = OutputFile::open(Path::new("/dev/null/x.xml"), "--junit").unwrap_err();
        assert!(why.starts_with("/dev/null/x.xml: this file cannot be written: "), "{why}");
        let UserError(why) = OutputFile::open(Path::new("/nowhere/x.html"), "--html").unwrap_err();
        let expected = "/nowhere/x.html: this file cannot be written: no folder /nowhere; name another one with --html";
        assert_eq!(why, expected);
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_written_directly() {
        OutputFile::open(Path::new("/dev/null"), "--junit").unwrap().write("x").unwrap();
        assert!(!Path::new("/dev/null.part").exists());
    }
}

//! Whether a text is in UTF-8, wherever its bytes are cut.

/// The beginning of a letter whose other bytes have not come.
#[derive(Clone, Copy, Default)]
pub(super) struct Letter {
    bytes: [u8; 4],
    known: usize,
}

impl Letter {
    /// Whether a letter lacks its end.
    pub(super) fn has_begun(&self) -> bool {
        self.known > 0
    }

    /// Takes in the next bytes of a text; false if it can be none any more.
    pub(super) fn go_on(&mut self, mut text: &[u8]) -> bool {
        while self.known > 0 {
            let Some((&next, rest)) = text.split_first() else {
                return true;
            };
            // What is kept is never a whole letter, so there is room for one byte more.
            self.bytes[self.known] = next;
            self.known += 1;
            text = rest;
            match std::str::from_utf8(&self.bytes[..self.known]) {
                Ok(_) => self.known = 0,
                Err(error) if error.error_len().is_some() => return false,
                Err(_) => {}
            }
        }
        match std::str::from_utf8(text) {
            Ok(_) => true,
            Err(error) if error.error_len().is_some() => false,
            Err(error) => {
                let begun = &text[error.valid_up_to()..];
                self.known = begun.len();
                self.bytes[..self.known].copy_from_slice(begun);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_text(bytes: &[u8], size: usize) -> bool {
        let mut letter = Letter::default();
        bytes.chunks(size).all(|piece| letter.go_on(piece)) && !letter.has_begun()
    }

    #[test]
    fn it_comes_to_the_same_wherever_the_bytes_are_cut() {
        let good = ["line", "zwölf", "語", "🦀", "a語b🦀cü"];
        let bad = [
            &b"\xff"[..],
            b"line\x80",
            b"\xe8\xaa",
            b"\xe8\xaaline",
            b"\xed\xa0\x80",
            b"\xf0\x9f\xa6",
            b"\xc0\x80",
        ];
        for bytes in good.iter().map(|text| text.as_bytes()).chain(bad) {
            let expected = std::str::from_utf8(bytes).is_ok();
            for size in 1..=bytes.len() {
                assert_eq!(is_text(bytes, size), expected, "{bytes:?} by {size}");
            }
        }
    }
}

//! Writing the key down for a server, or saying why it does not take it.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::HeaderValue;

use super::carrier::{KeyAlphabet, KeyEncoding, UuidForm};
use super::{Contract, ContractError, IdempotencyKey};

impl Contract {
    /// The key as the value of its header, marked as sensitive.
    ///
    /// # Errors
    ///
    /// [`ContractError`] when the server does not take this key, with the rule and where it comes
    /// from but without the key, or when the key does not travel in a header.
    pub fn encode_key(&self, key: &IdempotencyKey) -> Result<HeaderValue, ContractError> {
        let contract = || self.name_owned();
        if self.key_header().is_none() {
            return Err(ContractError::NotInHeader {
                contract: contract(),
            });
        }
        if let Some(value) = self.plain_value(key) {
            return Ok(value);
        }
        let text = self.key_text(key)?;
        let value = match self.encoding() {
            // Servers that read both forms take a leading quote for the beginning of a string.
            KeyEncoding::Bare if text.contains('"') => {
                return Err(ContractError::KeyQuote {
                    contract: contract(),
                });
            }
            KeyEncoding::Bare => HeaderValue::from_str(&text),
            KeyEncoding::StructuredString => HeaderValue::from_str(&quoted(&text)),
        };
        let mut value = value.expect("visible ASCII is a header value");
        value.set_sensitive(true);
        Ok(value)
    }

    /// The value where nothing about the key has to be changed or looked into: the common case, which every operation pays for.
    fn plain_value(&self, key: &IdempotencyKey) -> Option<HeaderValue> {
        let format = self.key_format();
        let bytes = key.as_bytes();
        let plain = matches!(
            (self.encoding(), format.uuid, &format.alphabet),
            (
                KeyEncoding::Bare,
                UuidForm::Hyphenated,
                KeyAlphabet::VisibleAscii
            )
        );
        if !plain || !(format.min..=format.max).contains(&bytes.len()) || key.has_quote() {
            return None;
        }
        // Shared from the start: every attempt has a copy of it.
        let mut value =
            HeaderValue::from_maybe_shared(Bytes::from_owner(Text(key.clone()))).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// The key as text for a carrier that is not a header.
    ///
    /// # Errors
    ///
    /// [`ContractError`] when the server does not take this key.
    pub fn key_text<'k>(&self, key: &'k IdempotencyKey) -> Result<Cow<'k, str>, ContractError> {
        let text = match self.key_format().uuid {
            UuidForm::Simple => key.uuid().map(|uuid| uuid.simple().to_string().into()),
            UuidForm::Hyphenated => None,
        };
        let text = text.unwrap_or_else(|| Cow::Borrowed(key.as_str()));
        self.check_text(key, &text)?;
        Ok(text)
    }

    /// Whether the server takes this key in the form in which it is written, as it stands in a request already.
    pub(crate) fn check_written(&self, key: &IdempotencyKey) -> Result<(), ContractError> {
        self.check_text(key, key.as_str())
    }

    /// A key as this server wants it, made from one that was drawn and has not been sent: where it takes only UUIDs that begin
    /// with the time (version 7, RFC 9562, section 5.7), a random one becomes one of those.
    pub(crate) fn shape(
        &self,
        drawn: IdempotencyKey,
        now: impl FnOnce() -> SystemTime,
    ) -> IdempotencyKey {
        if !matches!(
            self.key_format().alphabet,
            KeyAlphabet::Uuid { version: Some(7) }
        ) {
            return drawn;
        }
        match drawn.uuid() {
            Some(uuid) if uuid.get_version_num() == 4 => {
                let millis = now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default()
                    .as_millis();
                let mut random = [0; 10];
                random.copy_from_slice(&uuid.as_bytes()[6..]);
                let millis = u64::try_from(millis).unwrap_or(u64::MAX);
                uuid::Builder::from_unix_timestamp_millis(millis, &random)
                    .into_uuid()
                    .into()
            }
            _ => drawn,
        }
    }

    fn check_text(&self, key: &IdempotencyKey, text: &str) -> Result<(), ContractError> {
        let format = self.key_format();
        self.check_alphabet(key, text)?;
        if !(format.min..=format.max).contains(&text.len()) {
            return Err(ContractError::KeyLength {
                contract: self.name_owned(),
                min: format.min,
                max: format.max,
                length: text.len(),
                asked_by: format.source.clone(),
            });
        }
        Ok(())
    }

    fn check_alphabet(&self, key: &IdempotencyKey, text: &str) -> Result<(), ContractError> {
        let contract = || self.name_owned();
        let asked_by = || self.key_format().source.clone();
        match &self.key_format().alphabet {
            KeyAlphabet::VisibleAscii => Ok(()),
            KeyAlphabet::AlphanumericAnd(more) => {
                let other =
                    |byte: u8| !byte.is_ascii_alphanumeric() && !more.as_bytes().contains(&byte);
                match text.bytes().position(other) {
                    None => Ok(()),
                    Some(position) => Err(ContractError::KeyCharacter {
                        contract: contract(),
                        allowed: more.clone(),
                        position,
                        asked_by: asked_by(),
                    }),
                }
            }
            KeyAlphabet::Uuid { version } => {
                let fits = |uuid: uuid::Uuid| {
                    version.is_none_or(|version| uuid.get_version_num() == usize::from(version))
                };
                match key.uuid().is_some_and(fits) {
                    true => Ok(()),
                    false => Err(ContractError::KeyNotUuid {
                        contract: contract(),
                        version: *version,
                        asked_by: asked_by(),
                    }),
                }
            }
        }
    }
}

/// A key as the owner of its own bytes.
struct Text(IdempotencyKey);

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

fn quoted(text: &str) -> String {
    let text = sfv::StringRef::from_str(text).expect("visible ASCII is a structured-field string");
    sfv::ItemSerializer::new().bare_item(text).finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::KeyFormat;

    fn key(text: &str) -> IdempotencyKey {
        IdempotencyKey::parse(text).unwrap()
    }

    fn with_format(format: KeyFormat) -> Contract {
        let source = "the reference".into();
        let format = KeyFormat { source, ..format };
        Contract::builder("shop")
            .key_format(format)
            .build()
            .unwrap()
    }

    const UUID: &str = "8e03978e-40d5-43e8-bc93-6894a57f9324";

    #[test]
    fn a_key_is_sent_bare_or_quoted_as_the_contract_says_and_always_sensitive() {
        for (contract, text, sent) in [
            (Contract::generic(), "k-1", "k-1"),
            (Contract::stripe(), UUID, UUID),
            (Contract::ietf_draft(), "k-1", "\"k-1\""),
            (Contract::ietf_draft(), "a\"b\\c", "\"a\\\"b\\\\c\""),
        ] {
            let value = contract.encode_key(&key(text)).unwrap();
            assert_eq!(value, sent);
            assert!(value.is_sensitive());
            assert_eq!(format!("{value:?}"), "Sensitive");
        }
    }

    #[test]
    fn a_bare_key_with_a_quote_is_refused() {
        let error = Contract::generic()
            .encode_key(&key("\"s3cret\""))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "`generic` sends keys without quotes, this one has a double quote in it"
        );
    }

    #[test]
    fn a_key_that_does_not_fit_is_refused_with_the_limit_and_its_source_and_never_the_key() {
        let only = |more| KeyAlphabet::AlphanumericAnd(Cow::Borrowed(more));
        let base = KeyFormat::default;
        for (format, text, message) in [
            (
                KeyFormat { max: 32, ..base() },
                UUID,
                "`shop` takes keys of 1 to 32 characters (the reference), this one has 36",
            ),
            (
                KeyFormat { min: 16, ..base() },
                "s3cret",
                "`shop` takes keys of 16 to 255 characters (the reference), this one has 6",
            ),
            (
                KeyFormat {
                    alphabet: only("-_"),
                    ..base()
                },
                "s3cret:1",
                "`shop` takes keys of letters, digits and `-_` (the reference), this one has another character at position 6",
            ),
            (
                KeyFormat {
                    alphabet: KeyAlphabet::Uuid { version: None },
                    ..base()
                },
                "s3cret",
                "`shop` takes UUIDs (the reference), this key is none",
            ),
            (
                KeyFormat {
                    alphabet: KeyAlphabet::Uuid { version: Some(7) },
                    ..base()
                },
                UUID,
                "`shop` takes UUIDs of version 7 (the reference), this key is none",
            ),
        ] {
            let error = with_format(format).encode_key(&key(text)).unwrap_err();
            assert_eq!(error.to_string(), message);
            assert!(!format!("{error} {error:?}").contains(text));
        }
    }

    #[test]
    fn a_uuid_is_sent_as_32_digits_where_36_do_not_fit() {
        let contract = with_format(KeyFormat {
            max: 32,
            alphabet: KeyAlphabet::AlphanumericAnd("".into()),
            uuid: UuidForm::Simple,
            ..KeyFormat::default()
        });
        assert_eq!(
            contract.encode_key(&key(UUID)).unwrap(),
            "8e03978e40d543e8bc936894a57f9324"
        );
        assert_eq!(contract.encode_key(&key("order1")).unwrap(), "order1");
        let version_4 = with_format(KeyFormat {
            alphabet: KeyAlphabet::Uuid { version: Some(4) },
            ..KeyFormat::default()
        });
        assert_eq!(version_4.encode_key(&key(UUID)).unwrap(), UUID);
    }

    #[test]
    fn a_key_that_travels_in_the_body_has_a_text_and_no_header_value() {
        let contract = Contract::builder("shop")
            .json_pointer("/idempotency_key")
            .build()
            .unwrap();
        assert_eq!(contract.key_text(&key("k-1")).unwrap(), "k-1");
        assert_eq!(contract.key_header(), None);
        let error = contract.encode_key(&key("k-1")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "in the contract `shop` the key does not travel in a header"
        );
    }

    #[test]
    fn a_drawn_key_becomes_a_uuid_of_version_7_where_only_those_are_taken() {
        let contract = with_format(KeyFormat {
            alphabet: KeyAlphabet::Uuid { version: Some(7) },
            ..KeyFormat::default()
        });
        let now = || UNIX_EPOCH + std::time::Duration::from_millis(0x0123_4567_89ab);
        let shaped = contract.shape(key(UUID), now);
        assert_eq!(shaped.as_str(), "01234567-89ab-73e8-bc93-6894a57f9324");
        assert!(contract.encode_key(&shaped).is_ok());
        assert_eq!(contract.shape(shaped.clone(), now), shaped);
        assert_eq!(contract.shape(key("k-1"), now), key("k-1"));
        assert_eq!(Contract::generic().shape(key(UUID), now), key(UUID));
    }

    #[test]
    fn a_key_that_is_written_already_is_checked_as_it_stands() {
        let contract = with_format(KeyFormat {
            max: 32,
            uuid: UuidForm::Simple,
            ..KeyFormat::default()
        });
        assert!(contract.key_text(&key(UUID)).is_ok());
        let error = contract.check_written(&key(UUID)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`shop` takes keys of 1 to 32 characters (the reference), this one has 36"
        );
        assert!(contract.check_written(&key(&UUID.replace('-', ""))).is_ok());
    }

    proptest::proptest! {
        #[test]
        fn a_drawn_key_always_satisfies_every_named_contract(seed: u64, millis in 0_u64..1 << 47) {
            let now = || UNIX_EPOCH + std::time::Duration::from_millis(millis);
            let drawn = crate::contract::KeySource::seeded(seed).draw();
            for named in crate::contract::named::all() {
                let contract = named.contract();
                let shaped = contract.shape(drawn.clone(), now);
                let text = contract.key_text(&shaped);
                proptest::prop_assert!(text.is_ok(), "{}: {:?}", named.name(), text);
                if contract.key_header().is_some() {
                    proptest::prop_assert!(contract.encode_key(&shaped).is_ok());
                }
            }
        }
    }
}

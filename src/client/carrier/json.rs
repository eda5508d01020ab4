//! A member of a JSON object, found in its text.

use serde::de::IgnoredAny;

use super::{Edit, NoPlace, Site};

/// Looks for the value at a JSON pointer (RFC 6901). Objects that are missing on the way are made, and a `null` counts as missing:
/// it is what many serializers write for "not set".
pub(super) fn find(text: &[u8], pointer: &str) -> Result<Site, NoPlace> {
    let names: Vec<String> = pointer
        .split('/')
        .skip(1)
        .map(|token| token.replace("~1", "/").replace("~0", "~"))
        .collect();
    if text.trim_ascii().is_empty() {
        let mut edit = missing(text.len()..text.len(), &names, "");
        edit.before.insert(0, '{');
        edit.after.push('}');
        return Ok(Site::Free(edit));
    }
    // From here on the text is known to be JSON, and the walk below need not be told so again.
    serde_json::from_slice::<IgnoredAny>(text)
        .map_err(|error| NoPlace::Body(format!("it is no JSON ({error})")))?;
    let walk = Walk(text);
    let mut at = walk.space(0);
    for (depth, name) in names.iter().enumerate() {
        if text[at] != b'{' {
            return Err(NoPlace::Body(match depth {
                0 => "it is no object".to_owned(),
                _ => format!("there is a `{}` in it that is no object", names[depth - 1]),
            }));
        }
        let rest = &names[depth..];
        let found = walk.member(at, name)?;
        at = match found.value {
            None => {
                let comma = if found.is_first { "" } else { "," };
                return Ok(Site::Free(missing(found.end..found.end, rest, comma)));
            }
            Some(value) if walk.0[value..].starts_with(b"null") => {
                let range = value..walk.end(value);
                return Ok(Site::Free(match rest.split_first() {
                    Some((_, below)) if !below.is_empty() => {
                        let mut edit = missing(range, below, "");
                        edit.before.insert(0, '{');
                        edit.after.push('}');
                        edit
                    }
                    _ => Edit {
                        range,
                        before: String::new(),
                        after: String::new(),
                    },
                }));
            }
            Some(value) => value,
        };
    }
    let value = &text[at..walk.end(at)];
    Ok(serde_json::from_slice(value).map_or(Site::Other, Site::Text))
}

/// The members that are missing, from the outermost on.
fn missing(range: std::ops::Range<usize>, names: &[String], comma: &str) -> Edit {
    let names: Vec<String> = names.iter().map(|name| escaped(name)).collect();
    Edit {
        range,
        before: format!("{comma}{}:", names.join(":{")),
        after: "}".repeat(names.len().saturating_sub(1)),
    }
}

/// A text as a JSON string.
pub(super) fn escaped(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A walk through a text that is JSON.
struct Walk<'t>(&'t [u8]);

/// What was found of a member.
struct Member {
    /// Where its value begins.
    value: Option<usize>,
    /// Where the last member of the object ends, or where its first one would begin.
    end: usize,
    is_first: bool,
}

impl Walk<'_> {
    fn member(&self, object: usize, name: &str) -> Result<Member, NoPlace> {
        let mut member = Member {
            value: None,
            end: object + 1,
            is_first: true,
        };
        let mut at = self.space(object + 1);
        while self.0[at] == b'"' {
            let key = at..self.end(at);
            let value = self.space(self.space(key.end) + 1);
            // A name that is no Unicode text is not ours.
            let is_ours =
                serde_json::from_slice::<String>(&self.0[key]).is_ok_and(|found| found == name);
            if is_ours && member.value.replace(value).is_some() {
                return Err(NoPlace::Twice);
            }
            member.end = self.end(value);
            member.is_first = false;
            at = self.space(member.end);
            if self.0[at] == b',' {
                at = self.space(at + 1);
            }
        }
        Ok(member)
    }

    /// The first byte from there on that is no white space.
    fn space(&self, from: usize) -> usize {
        let space = self.0[from..]
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        from + space.count()
    }

    /// Where a value ends. Counts instead of recursing: the text may be nested as deep as it is long.
    fn end(&self, start: usize) -> usize {
        let mut depth = 0_usize;
        let mut at = start;
        while at < self.0.len() {
            match self.0[at] {
                b'"' => at = self.string_end(at) - 1,
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 0 => return at,
                b'}' | b']' => depth -= 1,
                b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return at,
                _ => {}
            }
            at += 1;
            if depth == 0 && matches!(self.0[at - 1], b'"' | b'}' | b']') {
                return at;
            }
        }
        at
    }

    fn string_end(&self, quote: usize) -> usize {
        let mut at = quote + 1;
        while self.0[at] != b'"' {
            at += if self.0[at] == b'\\' { 2 } else { 1 };
        }
        at + 1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// The text with the key `k` in it.
    #[track_caller]
    fn completed(text: &str, pointer: &str) -> String {
        let Ok(Site::Free(edit)) = find(text.as_bytes(), pointer) else {
            panic!("no free place in {text}");
        };
        let (start, end) = (edit.range.start, edit.range.end);
        format!(
            "{}{}\"k\"{}{}",
            &text[..start],
            edit.before,
            edit.after,
            &text[end..]
        )
    }

    #[test]
    fn the_key_goes_behind_the_last_member() {
        for (text, pointer, complete) in [
            ("{}", "/key", r#"{"key":"k"}"#),
            ("{ }", "/key", r#"{"key":"k" }"#),
            (r#"{"a":1}"#, "/key", r#"{"a":1,"key":"k"}"#),
            ("{\"a\":1.0e5\n}", "/key", "{\"a\":1.0e5,\"key\":\"k\"\n}"),
            (
                " {\"a\" : [1,{\"b\":\"}\"}] } ",
                "/key",
                " {\"a\" : [1,{\"b\":\"}\"}],\"key\":\"k\" } ",
            ),
            (r#"{"key":null}"#, "/key", r#"{"key":"k"}"#),
            (
                r#"{"key" : null , "b":2}"#,
                "/key",
                r#"{"key" : "k" , "b":2}"#,
            ),
            (r#"{"\u006bey":null}"#, "/key", r#"{"\u006bey":"k"}"#),
            (
                r#"{"a":"\\\"","b":true}"#,
                "/key",
                r#"{"a":"\\\"","b":true,"key":"k"}"#,
            ),
            ("", "/key", r#"{"key":"k"}"#),
            (" \n", "/key", " \n{\"key\":\"k\"}"),
            // Below other members.
            (
                r#"{"variables":{"x":1}}"#,
                "/variables/key",
                r#"{"variables":{"x":1,"key":"k"}}"#,
            ),
            (
                r#"{"query":"q"}"#,
                "/variables/key",
                r#"{"query":"q","variables":{"key":"k"}}"#,
            ),
            (
                r#"{"variables":null}"#,
                "/variables/key",
                r#"{"variables":{"key":"k"}}"#,
            ),
            (
                r#"{"variables":null}"#,
                "/variables/a/key",
                r#"{"variables":{"a":{"key":"k"}}}"#,
            ),
            ("", "/a/b/c", r#"{"a":{"b":{"c":"k"}}}"#),
            // Names with characters that mean something in a pointer or in JSON.
            ("{}", "/a~1b~0c", r#"{"a/b~c":"k"}"#),
            ("{}", "/a\"b", r#"{"a\"b":"k"}"#),
            ("{}", "/", r#"{"":"k"}"#),
            // What is below another name is not looked at.
            (
                r#"{"a":{"key":"x"}}"#,
                "/key",
                r#"{"a":{"key":"x"},"key":"k"}"#,
            ),
        ] {
            assert_eq!(completed(text, pointer), complete, "{text} {pointer}");
            assert!(serde_json::from_str::<Value>(complete).is_ok());
        }
    }

    #[test]
    fn what_stands_there_already_is_found() {
        for (text, pointer, found) in [
            (r#"{"key":"own"}"#, "/key", Site::Text("own".to_owned())),
            (
                r#"{"key":"\u006f\"wn"}"#,
                "/key",
                Site::Text("o\"wn".to_owned()),
            ),
            (r#"{"a":{"key":""}}"#, "/a/key", Site::Text(String::new())),
            (r#"{"key":7}"#, "/key", Site::Other),
            (r#"{"key":{}}"#, "/key", Site::Other),
            (r#"{"key":["own"]}"#, "/key", Site::Other),
            (r#"{"key":false,"a":1}"#, "/key", Site::Other),
        ] {
            assert_eq!(find(text.as_bytes(), pointer), Ok(found), "{text}");
        }
    }

    #[test]
    fn a_body_that_is_no_object_is_an_error_that_says_what_it_is() {
        for (text, pointer, why) in [
            ("[]", "/key", "it is no object"),
            ("\"key\"", "/key", "it is no object"),
            ("null", "/key", "it is no object"),
            (
                "a=1",
                "/key",
                "it is no JSON (expected value at line 1 column 1)",
            ),
            (
                "{\"a\":1",
                "/key",
                "it is no JSON (EOF while parsing an object at line 1 column 6)",
            ),
            (
                "{} {}",
                "/key",
                "it is no JSON (trailing characters at line 1 column 4)",
            ),
            (
                "\u{feff}{}",
                "/key",
                "it is no JSON (expected value at line 1 column 1)",
            ),
            (
                r#"{"a":[]}"#,
                "/a/key",
                "there is a `a` in it that is no object",
            ),
            (
                r#"{"a":{"b":"c"}}"#,
                "/a/b/key",
                "there is a `b` in it that is no object",
            ),
        ] {
            let body = Err(NoPlace::Body(why.to_owned()));
            assert_eq!(find(text.as_bytes(), pointer), body, "{text}");
        }
        for text in [
            r#"{"key":"a","key":"a"}"#,
            r#"{"key":null,"\u006bey":null}"#,
        ] {
            assert_eq!(find(text.as_bytes(), "/key"), Err(NoPlace::Twice), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_nested_as_deep_as_it_is_long_is_completed() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let complete = completed(&deep, "/key");
        assert_eq!(complete.len(), deep.len() + r#","key":"k""#.len());
        let latin = b"{\"a\":\"\xe9\"}";
        assert!(matches!(
            find(latin, "/key"),
            Ok(Site::Free(_)) | Err(NoPlace::Body(_))
        ));
    }

    fn object() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,6}".prop_map(Value::from),
        ];
        let value = leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c\"\\\\{}]{0,3}", inner, 0..4)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        });
        prop::collection::btree_map("[a-c\"\\\\{}/~]{0,3}", value, 0..5)
            .prop_map(|members| members.into_iter().collect())
    }

    proptest! {
        #[test]
        fn completing_a_body_keeps_every_other_byte_of_it(
            object in object(), pretty: bool, space in "[ \n\t]{0,3}", deep: bool,
        ) {
            let text = if pretty {
                serde_json::to_string_pretty(&object)
            } else {
                serde_json::to_string(&object)
            };
            let text = format!("{space}{}{space}", text.unwrap());
            let pointer = if deep { "/the/key" } else { "/the key" };
            let Ok(Site::Free(edit)) = find(text.as_bytes(), pointer) else {
                return Err(TestCaseError::fail("no place"));
            };
            // Nothing gives way, so taking the insertion out again leaves the text.
            prop_assert!(edit.range.is_empty());
            // Read back, because a float may not come back as it was.
            let mut expected: Value = serde_json::from_str(&text).unwrap();
            let complete = completed(&text, pointer);
            let inserted = complete.len() - text.len();
            let mut without = complete.clone().into_bytes();
            without.drain(edit.range.start..edit.range.start + inserted);
            prop_assert_eq!(without, text.into_bytes());
            if deep {
                expected["the"] = json!({"key": "k"});
            } else {
                expected["the key"] = json!("k");
            }
            prop_assert_eq!(serde_json::from_str::<Value>(&complete).unwrap(), expected);
            prop_assert_eq!(
                find(complete.as_bytes(), pointer),
                Ok(Site::Text("k".to_owned()))
            );
        }

        #[test]
        fn looking_never_panics(text in prop::collection::vec(any::<u8>(), 0..40), json in "[\\[\\]{}\":,a\\\\ n0]{0,30}") {
            let _ = find(&text, "/a/b");
            let _ = find(json.as_bytes(), "/a/b");
        }
    }
}

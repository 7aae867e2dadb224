//! Markdown of descriptions and chapters.

use maud::{Markup, PreEscaped};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd, html};

/// Renders to HTML, with HTML in the text shown as text. Code blocks marked `hidden` are only for the tests
/// that run the chapters.
pub(super) fn render(text: &str) -> Markup {
    let mut is_hidden = false;
    let events = Parser::new_ext(text, Options::ENABLE_TABLES).filter_map(|event| match event {
        Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
            is_hidden = info.split(' ').any(|word| word == "hidden");
            (!is_hidden).then_some(Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)))
        }
        Event::End(TagEnd::CodeBlock) if is_hidden => {
            is_hidden = false;
            None
        }
        _ if is_hidden => None,
        Event::Html(html) | Event::InlineHtml(html) => Some(Event::Text(html)),
        other => Some(other),
    });
    let mut rendered = String::new();
    html::push_html(&mut rendered, events);
    PreEscaped(rendered)
}

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn html_is_shown_as_text_and_hidden_blocks_are_not_shown() {
        let text = "a <b onclick=x>c</b>\n\n```sh hidden\nsecret\n```\n\n```sh\nshown\n```\n";
        let html = render(text).into_string();
        assert!(!html.contains("<b") && html.contains("&lt;b onclick=x&gt;"), "{html}");
        assert!(!html.contains("secret") && html.contains("<pre><code>shown"), "{html}");
    }
}

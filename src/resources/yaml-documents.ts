import { Composer, type Document, isScalar, Lexer, LineCounter, Parser } from "yaml";
import { VALUE_DEPTH_MAX } from "./plain-value.ts";

/**
 * The maximum number of lexemes. Ordinary text of 1 MiB has fewer; only a text that was made to be slow to parse has
 * more.
 */
const LEXEMES_MAX = 400_000;

export interface YamlDocuments {
  /** The documents, except empty ones, such as one after a final `---`. */
  readonly documents: readonly Document.Parsed[];
  readonly lines: LineCounter;
  /** The reason why parsing was aborted; there are no documents then. */
  readonly stopped?: { readonly offset: number; readonly message: string };
}

/**
 * Parses YAML 1.2 core. The parser runs token by token, so that a too deeply nested text is refused before the
 * composer, which is recursive, would overflow the stack.
 */
export function readYaml(text: string, documentsMax: number): YamlDocuments {
  const lines = new LineCounter();
  const parser = new Parser(lines.addNewLine);
  const composer = new Composer({
    version: "1.2",
    schema: "core",
    strict: true,
    stringKeys: true,
    // The tree reader checks for duplicate keys, because the parser's own check takes quadratic time.
    uniqueKeys: false,
    resolveKnownTags: false,
    prettyErrors: false,
    logLevel: "silent",
    lineCounter: lines,
  });
  const documents: Document.Parsed[] = [];
  const stop = (message: string): YamlDocuments => ({
    documents: [],
    lines,
    stopped: { offset: parser.offset, message },
  });

  const add = (composed: Iterable<Document.Parsed>) => {
    for (const document of composed) if (!isEmpty(document)) documents.push(document);
  };

  lines.addNewLine(0);
  let lexemes = 0;
  for (const lexeme of new Lexer().lex(text)) {
    lexemes += 1;
    if (lexemes > LEXEMES_MAX) return stop("too many parts for one file; split it");
    for (const token of parser.next(lexeme)) add(composer.next(token));
    // The parser's stack contains the document, every collection around the value, and the value itself. The length of
    // the stack therefore limits the depth of values.
    if (parser.stack.length > VALUE_DEPTH_MAX + 3)
      return stop(`nested deeper than ${VALUE_DEPTH_MAX} levels`);
    if (documents.length > documentsMax) return stop(`more than ${documentsMax} documents`);
  }
  for (const token of parser.end()) add(composer.next(token));
  add(composer.end(false, text.length));
  if (documents.length > documentsMax) return stop(`more than ${documentsMax} documents`);
  return { documents, lines };
}

function isEmpty(document: Document.Parsed): boolean {
  const { contents, errors, warnings } = document;
  if (errors.length > 0 || warnings.length > 0) return false;
  return contents === null || (isScalar(contents) && contents.value === null);
}

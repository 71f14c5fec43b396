import { Composer, type Document, isScalar, Lexer, LineCounter, Parser } from "yaml";
import { VALUE_DEPTH_MAX } from "./plain-value.ts";

/** What 1 MiB of ordinary lines has; more only comes from text made to be slow to read. */
const LEXEMES_MAX = 400_000;

export interface YamlDocuments {
  /** Without the empty ones, such as what follows a last `---`. */
  readonly documents: readonly Document.Parsed[];
  readonly lines: LineCounter;
  /** Set when reading stopped early; there are no documents then. */
  readonly stopped?: { readonly offset: number; readonly message: string };
}

/**
 * YAML 1.2 core. The parser is driven step by step, so that text that nests without end is given up
 * on before its size costs anything: composing is recursive, and would end in a stack overflow.
 */
export function readYaml(text: string, documentsMax: number): YamlDocuments {
  const lines = new LineCounter();
  const parser = new Parser(lines.addNewLine);
  const composer = new Composer({
    version: "1.2",
    schema: "core",
    strict: true,
    stringKeys: true,
    // Checked by whoever reads the tree: here it would compare each key with each other one.
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
    // A value at depth n stands in n collections, its document and itself.
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

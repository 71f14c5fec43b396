import { scanTemplate, type Token } from "./scan-template.ts";

/** Reads the tokens of a template one after the other. */
export class TokenReader {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(source: string) {
    this.#tokens = scanTemplate(source);
  }

  /** The next token, or one after it. At the end, the token that stands for the end. */
  peek(distance = 0): Token {
    const token = this.#tokens[this.#at + distance] ?? this.#tokens.at(-1);
    if (token === undefined) throw new SyntaxError("the template has no tokens");
    return token;
  }

  next(): Token {
    const token = this.peek();
    this.#at += 1;
    return token;
  }

  /** Returns true if the next token is this operator. */
  isOperator(text: string, distance = 0): boolean {
    const token = this.peek(distance);
    return token.kind === "operator" && token.text === text;
  }

  /** Returns true if the next token is one of these names. */
  isName(...texts: readonly string[]): boolean {
    const token = this.peek();
    return token.kind === "name" && texts.includes(token.text);
  }

  /** Returns true if the next tokens are these names. */
  areNames(...texts: readonly string[]): boolean {
    return texts.every((text, distance) => {
      const token = this.peek(distance);
      return token.kind === "name" && token.text === text;
    });
  }

  skipOperator(text: string): boolean {
    const isNext = this.isOperator(text);
    if (isNext) this.#at += 1;
    return isNext;
  }

  skipName(text: string): boolean {
    const isNext = this.isName(text);
    if (isNext) this.#at += 1;
    return isNext;
  }

  expectOperator(text: string): void {
    if (!this.skipOperator(text)) throw this.error(`"${text}" is missing`);
  }

  expectName(text: string): void {
    if (!this.skipName(text)) throw this.error(`"${text}" is missing`);
  }

  /** Returns the next token's text, which must be of this kind. */
  expect(kind: Token["kind"]): string {
    const token = this.next();
    if (token.kind === kind) return token.text;
    throw this.error(`a ${kind} is missing`, token);
  }

  /** An error that names what is next and its line. */
  error(message: string, token = this.peek()): SyntaxError {
    const found = token.text === "" ? token.kind : `"${token.text.slice(0, 40)}"`;
    return new SyntaxError(`${message} before ${found} in line ${token.line}`);
  }
}

/** A segment of a template string: literal text, or the name of a placeholder. */
export type TemplateSegment = { readonly text: string } | { readonly placeholder: string };

/** Matches the name of a template's parameter in `${...}`, or `name`, which is the name of the new app. */
const parameterNamePattern = /^[a-z][A-Za-z0-9_]{0,62}$/;

/** A `${` that is neither a placeholder nor escaped. `at` counts characters from 0. */
export class PlaceholderError extends Error {
  readonly at: number;
  constructor(message: string, at: number) {
    super(message);
    this.at = at;
  }
}

/**
 * Splits `before ${parameter} after` into its segments. `$${` is a literal `${`. A `$` without a brace is literal, so
 * that shell code and regular expressions rarely need escaping. Throws PlaceholderError for a `${` that is not closed,
 * or that contains no valid name (`${PORT:-80}`).
 */
export function parsePlaceholders(text: string): TemplateSegment[] {
  const segments: TemplateSegment[] = [];
  let literal = "";
  let from = 0;
  for (const match of text.matchAll(/\$\$\{|\$\{([^}]*)\}|\$\{/g)) {
    literal += text.slice(from, match.index);
    from = match.index + match[0].length;
    if (match[0] === "$${") {
      literal += "${";
      continue;
    }
    const name = match[1];
    if (name === undefined) {
      throw new PlaceholderError(
        '"${" is not closed; write "$${" for the text itself',
        match.index,
      );
    }
    if (!parameterNamePattern.test(name)) {
      throw new PlaceholderError(
        `"\${${name}}" is not the name of a parameter; write "$\${${name}}" for the text itself`,
        match.index,
      );
    }
    if (literal !== "") segments.push({ text: literal });
    literal = "";
    segments.push({ placeholder: name });
  }
  literal += text.slice(from);
  if (literal !== "" || segments.length === 0) segments.push({ text: literal });
  return segments;
}

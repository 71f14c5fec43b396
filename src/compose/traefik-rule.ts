/** One alternative of a Traefik rule. */
export interface RuleClause {
  readonly hosts: readonly string[];
  readonly prefixes: readonly string[];
  /** Matchers of the rule that have no equivalent in an App. */
  readonly others: readonly string[];
}

type Token = { readonly type: "symbol"; readonly text: string } | Matcher;

interface Matcher {
  readonly type: "matcher";
  readonly name: string;
  readonly values: readonly string[];
}

/**
 * The maximum number of alternatives of a rule. Nested parentheses can multiply alternatives, so the number needs a
 * limit.
 */
const CLAUSES_MAX = 100;

/**
 * Parses a rule such as ``Host(`a.example`) && PathPrefix(`/api`)`` into a list of alternatives. Returns undefined
 * for an invalid rule.
 */
export function parseTraefikRule(rule: string): RuleClause[] | undefined {
  const tokens = tokenize(rule.slice(0, 10_000));
  if (!tokens) return undefined;
  let at = 0;
  const isNext = (text: string) => {
    const token = tokens[at];
    return token?.type === "symbol" && token.text === text;
  };

  const parseOr = (depth: number): RuleClause[] | undefined => {
    let clauses = parseAnd(depth);
    while (clauses && isNext("||")) {
      at += 1;
      const right = parseAnd(depth);
      clauses = right && [...clauses, ...right];
    }
    return clauses && clauses.length <= CLAUSES_MAX ? clauses : undefined;
  };
  const parseAnd = (depth: number): RuleClause[] | undefined => {
    let clauses = parseUnary(depth);
    while (clauses && isNext("&&")) {
      at += 1;
      const right = parseUnary(depth);
      clauses =
        right && clauses.length * right.length <= CLAUSES_MAX
          ? clauses.flatMap((a) => right.map((b) => combineClauses(a, b)))
          : undefined;
    }
    return clauses;
  };
  const parseUnary = (depth: number): RuleClause[] | undefined => {
    if (depth > 20) return undefined;
    if (isNext("!")) {
      at += 1;
      const inner = parseUnary(depth + 1);
      return inner && [{ hosts: [], prefixes: [], others: ["!"] }];
    }
    if (isNext("(")) {
      at += 1;
      const inner = parseOr(depth + 1);
      if (!inner || !isNext(")")) return undefined;
      at += 1;
      return inner;
    }
    const token = tokens[at];
    if (token?.type !== "matcher") return undefined;
    at += 1;
    return [toClause(token)];
  };

  const clauses = parseOr(0);
  return at === tokens.length ? clauses : undefined;
}

function toClause({ name, values }: Matcher): RuleClause {
  const nothing: RuleClause = { hosts: [], prefixes: [], others: [] };
  if (name === "Host") return { ...nothing, hosts: values };
  if (name === "PathPrefix") return { ...nothing, prefixes: values };
  return { ...nothing, others: [name] };
}

function combineClauses(a: RuleClause, b: RuleClause): RuleClause {
  return {
    hosts: [...a.hosts, ...b.hosts],
    prefixes: [...a.prefixes, ...b.prefixes],
    others: [...a.others, ...b.others],
  };
}

function tokenize(rule: string): Token[] | undefined {
  const tokens: Token[] = [];
  const pattern =
    /\s*(?:(\|\||&&|[!()])|([A-Za-z]+)\s*\(\s*((?:(?:`[^`]*`|"[^"]*"|'[^']*')\s*(?:,\s*)?)*)\))/y;
  const text = rule.trim();
  while (pattern.lastIndex < text.length) {
    const match = pattern.exec(text);
    if (!match) return undefined;
    if (match[1] !== undefined) tokens.push({ type: "symbol", text: match[1] });
    else {
      const values = [...(match[3] ?? "").matchAll(/`([^`]*)`|"([^"]*)"|'([^']*)'/g)];
      tokens.push({
        type: "matcher",
        name: match[2] ?? "",
        values: values.map((value) => value[1] ?? value[2] ?? value[3] ?? ""),
      });
    }
  }
  return tokens;
}

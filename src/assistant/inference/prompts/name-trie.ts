/** A letter of one or more names, by UTF-16 code unit. */
interface TrieNode {
  readonly next: Map<number, TrieNode>;
  isName: boolean;
}

/**
 * Finds names in text. Vocabularies have thousands of control tokens, most of them unused, and requests
 * have megabytes: a regular expression of all names takes longer to be made ready than a prompt to be read.
 */
export class NameTrie {
  readonly #root: TrieNode = { next: new Map(), isName: false };

  constructor(names: readonly string[]) {
    for (const name of names) {
      let node = this.#root;
      for (let at = 0; at < name.length; at++) {
        const unit = name.charCodeAt(at);
        let next = node.next.get(unit);
        if (next === undefined) {
          next = { next: new Map(), isName: false };
          node.next.set(unit, next);
        }
        node = next;
      }
      node.isName = true;
    }
  }

  /** How long the longest name is that stands there; 0: none does. */
  findLongestAt(text: string, at: number): number {
    let node = this.#root;
    let found = 0;
    for (let end = at; end < text.length; end++) {
      const next = node.next.get(text.charCodeAt(end));
      if (next === undefined) break;
      node = next;
      if (node.isName) found = end + 1 - at;
    }
    return found;
  }

  /** Whether all of the text stands at the beginning of a name that is longer. */
  isProperPrefix(text: string): boolean {
    let node = this.#root;
    for (let at = 0; at < text.length; at++) {
      const next = node.next.get(text.charCodeAt(at));
      if (next === undefined) return false;
      node = next;
    }
    return node.next.size > 0;
  }
}

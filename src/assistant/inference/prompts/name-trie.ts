/** A node of the trie; its edges are UTF-16 code units. */
interface TrieNode {
  readonly next: Map<number, TrieNode>;
  isName: boolean;
}

/**
 * Finds names in text. A vocabulary has thousands of control tokens, and requests may have megabytes:
 * compiling a regular expression of all names takes longer than reading a prompt.
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

  /** Returns the length of the longest name at that offset; 0 if there is none. */
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

  /** Returns true if the text is a prefix of a longer name. */
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

import type { InterfaceDescription } from "./parse-interface-file.ts";
import type { ServedInterface } from "./port.ts";

export interface ServedObject {
  readonly description: InterfaceDescription;
  readonly served: ServedInterface;
}

export interface ObjectNode {
  /** Interfaces by name; empty if the path only has children. */
  readonly interfaces: ReadonlyMap<string, ServedObject>;
  /** The names of the direct children: the next path element of each object below this path. */
  readonly children: Iterable<string>;
}

interface TreeNode {
  readonly interfaces: Map<string, ServedObject>;
  /** The direct children by their path element, each with the number of objects at and below it. */
  readonly children: Map<string, number>;
}

/** The objects on the bus by path. */
export class ObjectTree {
  readonly #nodes = new Map<string, TreeNode>();

  /**
   * Adds an interface to a path and returns a function that removes it; repeated calls of that function have no
   * effect. Throws TypeError if the path already has the interface.
   */
  add(path: string, object: ServedObject): () => void {
    const { name } = object.description;
    if (this.#nodes.get(path)?.interfaces.has(name)) {
      throw new TypeError(`${path} already has the interface ${name}`);
    }
    this.#node(path).interfaces.set(name, object);
    for (const [parent, child] of listAncestors(path)) {
      const { children } = this.#node(parent);
      children.set(child, (children.get(child) ?? 0) + 1);
    }
    let isThere = true;
    return () => {
      if (isThere) this.#remove(path, name);
      isThere = false;
    };
  }

  at(path: string): ObjectNode | undefined {
    const node = this.#nodes.get(path);
    return node && { interfaces: node.interfaces, children: node.children.keys() };
  }

  #remove(path: string, name: string): void {
    this.#node(path).interfaces.delete(name);
    for (const [parent, child] of listAncestors(path)) {
      const { children } = this.#node(parent);
      const left = (children.get(child) ?? 1) - 1;
      if (left > 0) children.set(child, left);
      else children.delete(child);
      this.#forget(parent);
    }
    this.#forget(path);
  }

  #node(path: string): TreeNode {
    const known = this.#nodes.get(path);
    if (known) return known;
    const node: TreeNode = { interfaces: new Map(), children: new Map() };
    this.#nodes.set(path, node);
    return node;
  }

  #forget(path: string): void {
    const node = this.#nodes.get(path);
    if (node?.interfaces.size === 0 && node.children.size === 0) this.#nodes.delete(path);
  }
}

/** Returns every ancestor of a path, with the name of its child on the path: `/a/b` has [/a, b] and [/, a]. */
function listAncestors(path: string): [string, string][] {
  const parts = path.split("/").filter((part) => part !== "");
  return parts.map((part, index) => [`/${parts.slice(0, index).join("/")}`, part]);
}

/**
 * Formats items as paragraphs, and puts those of a stack below a line with its name. A stack takes the place of its
 * first item.
 */
export function formatByStack<T extends { readonly stack: string | null }>(
  items: readonly T[],
  format: (item: T) => string,
): string[] {
  return items.flatMap((item, index) => {
    const { stack } = item;
    if (stack === null) return [format(item)];
    const members = items.filter((other) => other.stack === stack);
    if (items.indexOf(members[0] ?? item) !== index) return [];
    const texts = members.map((member) => format(member).replaceAll(/^(?=.)/gm, "  "));
    return [`stack/${stack}:`, ...texts];
  });
}

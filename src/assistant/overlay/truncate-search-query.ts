/** What Context1 takes as a query. */
const BYTES_MAX = 4_096;

/** A question is mostly short; of a pasted text the beginning says what it is about. */
export function truncateSearchQuery(prompt: string): string {
  const bytes = Buffer.from(prompt);
  if (bytes.length <= BYTES_MAX) return prompt;
  let end = BYTES_MAX;
  while (((bytes[end] ?? 0) & 0b1100_0000) === 0b1000_0000) end -= 1;
  return bytes.toString("utf8", 0, end);
}

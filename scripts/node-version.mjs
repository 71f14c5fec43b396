/** Called before anything else is imported, and in plain syntax, so that a Node.js that is too old gets as far as the message. */
export function checkNodeVersion() {
  const parts = process.versions.node.split(".").map(Number);
  if (parts[0] > 20 || (parts[0] === 20 && parts[1] >= 19)) return;
  process.stderr.write(
    `error: Berth needs Node.js 20.19 or newer; this is ${process.versions.node}\n` +
      "try:   install a newer one: https://nodejs.org/en/download\n",
  );
  process.exit(1);
}

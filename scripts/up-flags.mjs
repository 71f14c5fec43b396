/**
 * Returns the value of a flag of `berth up`, given as `--name value` or `--name=value`; undefined if it is not given.
 */
export function flag(args, name) {
  const index = args.findIndex((arg) => arg === name || arg.startsWith(`${name}=`));
  if (index < 0) return undefined;
  return args[index] === name ? args[index + 1] : args[index].slice(name.length + 1);
}

/** Shows how many messages wait. */
export const Badge = ({ count }: { count: number }) => {
  return <span className="badge">{count}</span>;
};

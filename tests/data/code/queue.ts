import { Injectable } from '@angular/core';

/** What a job must tell. */
export interface Job<T> {
  readonly id: string;
  /** Runs it. */
  run(input: T): Promise<void>;
}

export enum State { Waiting = 'waiting', Done = 'done' }

/** A queue of jobs, oldest first. */
@Injectable({ scope: 'root' })
export class Queue<T> implements Iterable<Job<T>> {
  private jobs: Job<T>[] = [];

  constructor(private readonly limit: number) {}

  /** Adds a job at the end. */
  public push(job: Job<T>): void {
    this.jobs.push(job);
  }

  [Symbol.iterator](): Iterator<Job<T>> {
    return this.jobs.values();
  }
}

export abstract class Worker {
  abstract stop(): void;
}

/** Waits. */
export const sleep = async (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, ms));

namespace Retry.Policy {
  export function backoff(attempt: number): number {
    return 2 ** attempt;
  }
}

export default function (jobs: Job<string>[]): number {
  return jobs.length;
}

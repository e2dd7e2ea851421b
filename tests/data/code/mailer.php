<!doctype html>
<?php
namespace Fixture\Mail;

use Fixture\Transport;

/**
 * Sends letters.
 */
#[Service('mail')]
abstract class Mailer implements Sender
{
    use Logs;

    private ?string $from = null;

    /**
     * @param Transport $transport where letters go
     */
    public function __construct(private Transport $transport)
    {
    }

    abstract protected function sign(string $text): string;

    // Sends one letter.
    public function send(string $größe): bool
    {
        $letter = function () use ($größe) {
            return $größe;
        };
        return $this->transport->put($this->sign($letter()));
    }
}

interface Sender
{
    public function send(string $text): bool;
}

trait Logs
{
    public function log(): void {}
}

enum Level: int
{
    case Low = 1;
}

if (!function_exists('greet')) {
    # Greets by name.
    function greet(string $name): string
    {
        return "Hello $name";
    }
}

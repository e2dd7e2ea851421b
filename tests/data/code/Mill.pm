package Fixture::Mill;

use strict;
use warnings;

=head1 NAME

Fixture::Mill - grinds grain between two stones

=head1 SYNOPSIS

    my $mill = Fixture::Mill->new;

=cut

our $VERSION = '1.0';

sub new {
    my ($class, %options) = @_;
    return bless {%options}, $class;
}

=head2 grind

Grinds a sack of grain.

=cut

sub grind {
    my ($self, $sack) = @_;
    return $sack->weight * 0.9;
}

# Cleans both stones.
sub clean($self) { return $self->{stones} = 2 }

package Fixture::Mill::Stone {
    sub turn { 1 }
}

BEGIN {
    sub early { 1 }
}

1;

__END__

=head1 LICENSE

None.
